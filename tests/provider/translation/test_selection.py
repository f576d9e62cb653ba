import pytest
from hypothesis import given, strategies as st

from provider.translation.selection import Selection, SelectionTerm
from tests.fakes.node_affinity import term_allows
from vkubelet.kube.selector import Operator, Requirement, parse_selector

SSD = parse_selector("disk=ssd")
NOT_VIRTUAL = parse_selector("type!=virtual-kubelet")


def test_a_selector_becomes_one_term() -> None:
    selection = Selection.of_selector(parse_selector("disk in (a,b),!x,n>1"))
    assert selection.build_terms() == [
        {
            "matchExpressions": [
                {"key": "disk", "operator": "In", "values": ["a", "b"]},
                {"key": "x", "operator": "DoesNotExist"},
                {"key": "n", "operator": "Gt", "values": ["1"]},
            ]
        }
    ]


def test_names_become_a_term_each() -> None:
    terms = Selection.of_names(["n1", "n2"]).and_requirements(SSD.requirements).build_terms()
    ssd = [{"key": "disk", "operator": "In", "values": ["ssd"]}]
    assert terms == [
        {
            "matchExpressions": ssd,
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}],
        }
        for name in ("n1", "n2")
    ]


def test_intersection_of_different_names_selects_nothing() -> None:
    selection = Selection.of_names(["a"]).intersect(Selection.of_names(["b"]))
    assert selection.terms == ()
    assert not selection.matches("a", {})


def test_requirements_are_not_repeated() -> None:
    selection = Selection.of_selector(SSD).and_requirements(SSD.requirements)
    assert selection == Selection.of_selector(SSD)


def test_everything_narrowed_is_the_requirements_alone() -> None:
    narrowed = Selection.of_all().and_requirements(NOT_VIRTUAL.requirements)
    assert narrowed == Selection.of_selector(NOT_VIRTUAL)
    assert Selection.of_all().matches("any", {})


def test_an_empty_term_is_never_written() -> None:
    with pytest.raises(AssertionError):
        Selection.of_all().build_terms()


REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(["a", "b"]),
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.sets(st.sampled_from(["1", "2"]), min_size=1).map(lambda values: tuple(sorted(values))),
)
TERMS = st.builds(
    SelectionTerm,
    st.lists(REQUIREMENTS, min_size=1, max_size=2).map(tuple),
    st.sampled_from([None, "n1", "n2"]),
)
SELECTIONS = st.lists(TERMS, max_size=3).map(lambda terms: Selection(tuple(terms)))
LABELS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2", "3"]))


@given(SELECTIONS, SELECTIONS, st.sampled_from(["n1", "n2", "n3"]), LABELS)
def test_intersection_selects_what_both_select(
    left: Selection, right: Selection, name: str, labels: dict[str, str]
) -> None:
    both = left.matches(name, labels) and right.matches(name, labels)
    assert left.intersect(right).matches(name, labels) is both


@given(SELECTIONS, st.sampled_from(["n1", "n2", "n3"]), LABELS)
def test_terms_mean_to_the_scheduler_what_the_selection_means_here(
    selection: Selection, name: str, labels: dict[str, str]
) -> None:
    allowed = any(term_allows(term, name, labels) for term in selection.build_terms())
    assert allowed is selection.matches(name, labels)
