import pytest

from provider.mapping.errors import MappingError
from provider.mapping.selector import NamedSelector, SelectorMapping, parse_named_selector
from tests.fakes.physical_nodes import make_node
from vkubelet.kube.selector import SelectorError, parse_selector

SSD = NamedSelector("ssd", parse_selector("disk=ssd"))
BIG = NamedSelector("big", parse_selector("cores>8,!spot"))


def test_groups_by_selector_and_a_node_may_be_in_several() -> None:
    both = make_node("n1", {"disk": "ssd", "cores": "16"})
    small = make_node("n2", {"disk": "ssd", "cores": "2"})
    spot = make_node("n3", {"cores": "16", "spot": ""})
    ssd, big = SelectorMapping((SSD, BIG)).group_nodes([both, small, spot])
    assert (ssd.name, ssd.members) == ("ssd", (both, small))
    assert (big.name, big.members) == ("big", (both,))
    assert ssd.named
    assert big.named
    assert big.selection.matches("x", {"cores": "9"})
    assert not big.selection.matches("x", {"cores": "9", "spot": ""})


def test_a_named_virtual_node_exists_without_nodes() -> None:
    (group,) = SelectorMapping((SSD,)).group_nodes([])
    assert group.members == ()


def test_a_name_can_be_given_once() -> None:
    with pytest.raises(MappingError, match="--virtual-node ssd is given twice"):
        SelectorMapping((SSD, NamedSelector("ssd", BIG.selector)))
    with pytest.raises(MappingError, match="at least one --virtual-node"):
        SelectorMapping(())


def test_why_a_node_is_left_out() -> None:
    node = make_node("n")
    assert SelectorMapping((SSD,)).reason_left_out(node) == "selector disk=ssd doesn't match"
    several = SelectorMapping((SSD, BIG)).reason_left_out(node)
    assert several == "no --virtual-node's selector matches"


@pytest.mark.parametrize("text", ["ssd=disk=ssd", "ssd=disk in (ssd)", "ssd= disk = ssd"])
def test_text_of_a_virtual_node(text: str) -> None:
    assert parse_named_selector(text) == SSD


def test_an_empty_selector_selects_everything() -> None:
    assert parse_named_selector("all=").selector.matches({})


@pytest.mark.parametrize("text", ["", "ssd", "=disk", "Bad_Name=disk", "a b=c"])
def test_text_that_names_no_node(text: str) -> None:
    with pytest.raises(ValueError, match="is not NAME=SELECTOR"):
        parse_named_selector(text)


def test_a_wrong_selector_is_pointed_at_in_the_whole_text() -> None:
    with pytest.raises(SelectorError) as caught:
        parse_named_selector("ssd=disk in (a")
    assert str(caught.value).splitlines()[1:] == ["  ssd=disk in (a", "                ^"]
