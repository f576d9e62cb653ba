import pytest
from hypothesis import given, strategies as st

from provider.labels import is_home_only, make_label_value
from vkubelet.kube.names import is_label_value


@pytest.mark.parametrize("text", ["", "node-1", "a" * 63, "A_b.c"])
def test_a_valid_value_stays_as_it_is(text: str) -> None:
    assert make_label_value(text) == text


@pytest.mark.parametrize(
    "text", ["system:serviceaccount:ns:sa", "user@corp", "-a", "a" * 64, "@@@", "ä" * 80, "a" * 253]
)
def test_other_text_becomes_a_valid_value_that_is_always_the_same(text: str) -> None:
    assert is_label_value(make_label_value(text))
    assert make_label_value(text) != text
    assert make_label_value(text) == make_label_value(text)


def test_long_names_with_a_common_prefix_differ() -> None:
    assert make_label_value("n" * 70 + "a") != make_label_value("n" * 70 + "b")
    assert make_label_value("a:b") != make_label_value("a/b")


@given(st.text(max_size=300))
def test_every_text_gives_a_label_value(text: str) -> None:
    assert is_label_value(make_label_value(text))


@pytest.mark.parametrize(
    ("key", "home_only"),
    [
        ("type", True),
        ("kubernetes.io/hostname", True),
        ("vkubelet.io/peering", True),
        ("virtual-kubelet.io/provider", True),
        ("kubernetes.io/os", False),
        ("types", False),
        ("x.vkubelet.io/a", False),
    ],
)
def test_keys_that_say_nothing_about_physical_nodes(key: str, home_only: bool) -> None:
    assert is_home_only(key) is home_only
