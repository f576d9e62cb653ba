import pytest
from hypothesis import given, strategies as st

from vkubelet.kube.selector import Operator, Requirement, Selector, SelectorError, parse_selector

IN, NOT_IN, EXISTS = Operator.IN, Operator.NOT_IN, Operator.EXISTS
ABSENT, GT, LT = Operator.DOES_NOT_EXIST, Operator.GT, Operator.LT


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", []),
        ("  ", []),
        ("a", [Requirement("a", EXISTS)]),
        ("!a", [Requirement("a", ABSENT)]),
        ("! a ", [Requirement("a", ABSENT)]),
        ("a=b", [Requirement("a", IN, ("b",))]),
        ("a==b", [Requirement("a", IN, ("b",))]),
        (" a = b ", [Requirement("a", IN, ("b",))]),
        ("a=", [Requirement("a", IN, ("",))]),
        ("a=,b", [Requirement("a", IN, ("",)), Requirement("b", EXISTS)]),
        ("a!=b", [Requirement("a", NOT_IN, ("b",))]),
        ("a!=", [Requirement("a", NOT_IN, ("",))]),
        ("a>1", [Requirement("a", GT, ("1",))]),
        ("a<3", [Requirement("a", LT, ("3",))]),
        ("a in (b)", [Requirement("a", IN, ("b",))]),
        ("a in(b,c)", [Requirement("a", IN, ("b", "c"))]),
        ("a in (c, b,b)", [Requirement("a", IN, ("b", "c"))]),
        ("a in ()", [Requirement("a", IN, ("",))]),
        ("a in (,)", [Requirement("a", IN, ("",))]),
        ("x in (foo,,baz)", [Requirement("x", IN, ("", "baz", "foo"))]),
        ("z notin ()", [Requirement("z", NOT_IN, ("",))]),
        ("a notin (b,c)", [Requirement("a", NOT_IN, ("b", "c"))]),
        ("in in (in,notin)", [Requirement("in", IN, ("in", "notin"))]),
        ("notin=in", [Requirement("notin", IN, ("in",))]),
        ("in,notin", [Requirement("in", EXISTS), Requirement("notin", EXISTS)]),
        ("x.io/a=b,!c", [Requirement("x.io/a", IN, ("b",)), Requirement("c", ABSENT)]),
        ("a\tin\n(b)", [Requirement("a", IN, ("b",))]),
    ],
)
def test_grammar(text: str, requirements: list[Requirement]) -> None:
    assert parse_selector(text) == Selector(tuple(requirements))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        (",a", 0),
        ("a,", 2),
        ("a,,b", 2),
        ("=a", 0),
        ("!", 1),
        ("!!a", 1),
        ("a b", 2),
        ("a=b c", 4),
        ("a=b=c", 3),
        ("a!b", 1),
        ("!a=b", 2),
        ("a in b", 5),
        ("a in (b", 7),
        ("a in (b c)", 8),
        ("a in (b))", 8),
        ("a in ((b)", 6),
        ("a in", 4),
        ("a notin", 7),
        ("a>b", 2),
        ("a>", 2),
        ("a<1.5", 2),
        ("a>99999999999999999999", 2),
        ("a=b/c", 2),
        ("ok=yes,a=-b", 9),
        ("ok=yes,-a=b", 7),
        ("a in (b,@)", 8),
        ("a=" + "b" * 64, 2),
        ("/a", 0),
        ("a=(b)", 2),
        ("a\x00", 0),
    ],
)
def test_error_points_at_the_character(text: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert caught.value.position == position
    lines = str(caught.value).splitlines()
    assert lines[-1].index("^") == position + 2
    assert lines[0].startswith("not a label selector: ")


def test_error_shows_the_text_above_the_caret() -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector("zone in (a,b")
    assert str(caught.value) == (
        "not a label selector: expected ',' or ')', found the end\n  zone in (a,b\n              ^"
    )


@pytest.mark.parametrize(
    ("requirement", "labels", "matches"),
    [
        (Requirement("a", IN, ("b",)), {"a": "b"}, True),
        (Requirement("a", IN, ("b",)), {"a": "c"}, False),
        (Requirement("a", IN, ("b",)), {}, False),
        (Requirement("a", IN, ("",)), {}, False),
        (Requirement("a", NOT_IN, ("b",)), {"a": "c"}, True),
        (Requirement("a", NOT_IN, ("b",)), {"a": "b"}, False),
        (Requirement("a", NOT_IN, ("b",)), {}, True),
        (Requirement("a", EXISTS), {"a": ""}, True),
        (Requirement("a", EXISTS), {}, False),
        (Requirement("a", ABSENT), {}, True),
        (Requirement("a", ABSENT), {"a": ""}, False),
        (Requirement("a", GT, ("5",)), {"a": "6"}, True),
        (Requirement("a", GT, ("5",)), {"a": "5"}, False),
        (Requirement("a", LT, ("5",)), {"a": "-1"}, True),
        (Requirement("a", LT, ("5",)), {}, False),
        (Requirement("a", LT, ("5",)), {"a": "1_0"}, False),
        (Requirement("a", GT, ("5",)), {"a": "many"}, False),
        (Requirement("a", GT, ("5",)), {"a": "9223372036854775808"}, False),
        (Requirement("a", GT, ()), {"a": "6"}, False),
        (Requirement("a", GT, ("x",)), {"a": "6"}, False),
    ],
)
def test_matching(requirement: Requirement, labels: dict[str, str], matches: bool) -> None:
    assert requirement.matches(labels) is matches


def test_selector_needs_all_requirements_and_none_matches_everything() -> None:
    selector = parse_selector("a=b,!c")
    assert selector.matches({"a": "b"})
    assert not selector.matches({"a": "b", "c": ""})
    assert Selector().matches({})


@pytest.mark.parametrize(
    "requirement",
    [
        Requirement("a b", EXISTS),
        Requirement("a", IN),
        Requirement("a", NOT_IN, ("b c",)),
        Requirement("a", EXISTS, ("b",)),
        Requirement("a", GT, ("1", "2")),
        Requirement("a", LT, ("x",)),
    ],
)
def test_requirements_that_the_scheduler_cannot_evaluate_have_a_problem(
    requirement: Requirement,
) -> None:
    assert requirement.problem


KEYS = st.sampled_from(["a", "in", "notin", "x.io/key", "A_b.c"])
VALUES = st.sampled_from(["", "b", "in", "notin", "1", "a_b.c"])
SETS = st.sets(VALUES, min_size=1).map(lambda values: tuple(sorted(values)))
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from([IN, NOT_IN]), SETS),
    st.builds(Requirement, KEYS, st.sampled_from([EXISTS, ABSENT])),
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from([GT, LT]),
        st.integers(min_value=0, max_value=2**63 - 1).map(lambda number: (str(number),)),
    ),
)


@given(st.lists(REQUIREMENTS, max_size=5).map(lambda items: Selector(tuple(items))))
def test_text_of_a_selector_parses_to_the_same(selector: Selector) -> None:
    assert parse_selector(str(selector)) == selector
    assert all(requirement.problem is None for requirement in selector.requirements)


@given(st.text(alphabet="ab1!=<>(),. \t-_/in", max_size=30))
def test_any_text_is_a_selector_or_points_somewhere(text: str) -> None:
    try:
        selector = parse_selector(text)
    except SelectorError as error:
        position = error.position
    else:
        assert parse_selector(str(selector)) == selector
        return
    assert position == len(text) or not text[position].isspace()
