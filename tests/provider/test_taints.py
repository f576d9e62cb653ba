from typing import Any

import pytest

from provider.taints import AcceptedTaint, NodeTaint, parse_accepted_taint


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("gpu", AcceptedTaint("gpu")),
        ("x.io/gpu", AcceptedTaint("x.io/gpu")),
        ("gpu=yes", AcceptedTaint("gpu", "yes")),
        ("gpu=", AcceptedTaint("gpu", "")),
        ("gpu:NoSchedule", AcceptedTaint("gpu", None, "NoSchedule")),
        ("gpu=yes:NoExecute", AcceptedTaint("gpu", "yes", "NoExecute")),
    ],
)
def test_text_of_an_accepted_taint(text: str, taint: AcceptedTaint) -> None:
    assert parse_accepted_taint(text) == taint
    assert str(taint) == text


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("", "''"),
        ("=a", "''"),
        (":NoSchedule", "''"),
        ("a b", "'a b'"),
        ("a=b c", "'b c'"),
        ("a=b=c", "'b=c'"),
        ("a:", "''"),
        ("a:noschedule", "'noschedule'"),
        ("a:NoSchedule:NoExecute", "'NoSchedule:NoExecute'"),
    ],
)
def test_other_text_is_refused_with_what_is_wrong(text: str, culprit: str) -> None:
    with pytest.raises(ValueError, match=r"is not KEY\[=VALUE\]\[:EFFECT\]") as caught:
        parse_accepted_taint(text)
    assert repr(text) in str(caught.value)
    assert culprit in str(caught.value)


@pytest.mark.parametrize(
    ("accepted", "accepts"),
    [
        ("gpu", True),
        ("gpu=yes", True),
        ("gpu:NoSchedule", True),
        ("gpu=yes:NoSchedule", True),
        ("gpu=no", False),
        ("gpu=", False),
        ("gpu:NoExecute", False),
        ("cpu", False),
    ],
)
def test_which_taints_are_accepted(accepted: str, accepts: bool) -> None:
    taint = NodeTaint("gpu", "yes", "NoSchedule")
    assert parse_accepted_taint(accepted).accepts(taint) is accepts


@pytest.mark.parametrize(
    ("accepted", "toleration", "covers"),
    [
        ("a", {"key": "a", "operator": "Exists"}, True),
        ("a", {"key": "a", "value": "x"}, True),
        ("a", {"key": "a", "operator": "Lt", "value": "3"}, True),
        ("a", {"operator": "Exists"}, False),
        ("a", {"key": "", "operator": "Exists"}, False),
        ("a", {"key": "b", "operator": "Exists"}, False),
        ("a=x", {"key": "a", "operator": "Equal", "value": "x"}, True),
        ("a=x", {"key": "a", "operator": "Exists"}, False),
        ("a=x", {"key": "a", "value": "y"}, False),
        ("a=", {"key": "a"}, True),
        ("a:NoSchedule", {"key": "a", "operator": "Exists", "effect": "NoSchedule"}, True),
        ("a:NoSchedule", {"key": "a", "operator": "Exists"}, False),
        ("a:NoSchedule", {"key": "a", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_a_toleration_is_covered_if_all_it_tolerates_is_acceptable(
    accepted: str, toleration: dict[str, Any], covers: bool
) -> None:
    assert parse_accepted_taint(accepted).covers(toleration) is covers


@pytest.mark.parametrize(
    ("accepted", "toleration"),
    [
        ("a", {"key": "a", "operator": "Exists"}),
        ("a=x:NoExecute", {"key": "a", "operator": "Equal", "value": "x", "effect": "NoExecute"}),
    ],
)
def test_toleration_of_an_accepted_taint(accepted: str, toleration: dict[str, Any]) -> None:
    taint = parse_accepted_taint(accepted)
    assert taint.build_toleration() == toleration
    assert taint.covers(toleration)
