"""What pods say about each other, over there."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from provider.translation.neighbours import Neighbourhood, translate_neighbours
from vkubelet.kube.objects import KubeObject

HOOD = Neighbourhood(
    home_cluster_uid="h-1",
    topology_keys=frozenset({"zone", "kubernetes.io/hostname"}),
    name_namespace="{}-there".format,
    namespace="mine",
    labels={"v": "7", "app": "web"},
)
OURS = {"key": "vkubelet.io/home-cluster", "operator": "In", "values": ["h-1"]}
SELECTOR = {"matchLabels": {"app": "web"}}
NARROWED = {**SELECTOR, "matchExpressions": [OURS]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAME = "kubernetes.io/metadata.name"
OTHER_LABELS = (
    "podAffinity on zone doesn't travel: its namespaceSelector speaks of labels of home's"
    " namespaces other than kubernetes.io/metadata.name"
)


def translate(**affinity: Any) -> tuple[KubeObject, list[str]]:
    return translate_neighbours({}, affinity, HOOD)


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_terms_count_pods_of_this_home_cluster_only(kind: str) -> None:
    term = {"labelSelector": SELECTOR, "topologyKey": "zone"}
    weighted = {"weight": 5, "podAffinityTerm": term}
    remote, lost = translate(
        nodeAffinity={"x": 1}, **{kind: {REQUIRED: [term], PREFERRED: [weighted]}}
    )
    narrowed = {**term, "labelSelector": NARROWED}
    assert lost == []
    assert remote == {
        "affinity": {
            "nodeAffinity": {"x": 1},
            kind: {
                REQUIRED: [narrowed],
                PREFERRED: [{"weight": 5, "podAffinityTerm": narrowed}],
            },
        }
    }
    assert term["labelSelector"] == SELECTOR, "what was given isn't changed"


def test_expressions_of_the_pods_own_stay() -> None:
    mine = {"key": "app", "operator": "Exists"}
    term = {"labelSelector": {"matchExpressions": [mine]}, "topologyKey": "zone"}
    remote, _ = translate(podAffinity={REQUIRED: [term]})
    (found,) = remote["affinity"]["podAffinity"][REQUIRED]
    assert found["labelSelector"] == {"matchExpressions": [mine, OURS]}


@pytest.mark.parametrize("selector", [{}, {"labelSelector": None}])
def test_term_without_a_selector_still_matches_nothing(selector: KubeObject) -> None:
    term = {**selector, "topologyKey": "zone"}
    remote, _ = translate(podAffinity={REQUIRED: [term]})
    assert remote["affinity"]["podAffinity"][REQUIRED] == [term]


def test_namespaces_are_the_remote_ones() -> None:
    term = {"labelSelector": {}, "topologyKey": "zone", "namespaces": ["a", "b"]}
    remote, _ = translate(podAntiAffinity={REQUIRED: [term]})
    (found,) = remote["affinity"]["podAntiAffinity"][REQUIRED]
    assert found["namespaces"] == ["a-there", "b-there"]


def test_every_namespace_stays_every_namespace() -> None:
    term = {"labelSelector": SELECTOR, "topologyKey": "zone", "namespaceSelector": {}}
    remote, lost = translate(podAntiAffinity={REQUIRED: [term]})
    assert lost == []
    (found,) = remote["affinity"]["podAntiAffinity"][REQUIRED]
    assert found["namespaceSelector"] == {}


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({"matchLabels": {NAME: "b"}}, ["a-there", "b-there"]),
        (
            {"matchExpressions": [{"key": NAME, "operator": "In", "values": ["a", "c"]}]},
            ["a-there", "c-there"],
        ),
        (
            {
                "matchLabels": {NAME: "c"},
                "matchExpressions": [{"key": NAME, "operator": "In", "values": ["b", "c"]}],
            },
            ["a-there", "c-there"],
        ),
    ],
)
def test_namespaces_that_are_selected_by_name_are_named(
    selector: KubeObject, found: list[str]
) -> None:
    term = {"labelSelector": {}, "topologyKey": "zone", "namespaces": ["a"]}
    remote, lost = translate(podAffinity={REQUIRED: [{**term, "namespaceSelector": selector}]})
    assert lost == []
    (translated,) = remote["affinity"]["podAffinity"][REQUIRED]
    assert translated["namespaces"] == found
    assert "namespaceSelector" not in translated


def test_a_namespace_that_is_not_over_there_is_not_taken_for_the_pods_own() -> None:
    hood = replace(HOOD, name_namespace=lambda _: "the-only-one")
    term = {"labelSelector": {}, "topologyKey": "zone"}
    both = {**term, "namespaces": ["other", "mine"]}
    other = {**term, "namespaces": ["other"]}
    remote, lost = translate_neighbours({}, {"podAntiAffinity": {REQUIRED: [both, other]}}, hood)
    (translated,) = remote["affinity"]["podAntiAffinity"][REQUIRED]
    assert translated["namespaces"] == ["the-only-one"]
    assert lost == [
        "podAntiAffinity on zone doesn't travel: no pods of the namespaces other are over there"
    ]


def test_what_the_api_server_makes_of_label_keys_is_not_made_twice() -> None:
    """It appends to the labelSelector at creation, and refuses a key that is there twice."""
    keys = {"matchLabelKeys": ["v", "absent"], "mismatchLabelKeys": ["app"]}
    same = {"key": "v", "operator": "In", "values": ["6"]}  # as it was at creation
    other = {"key": "app", "operator": "NotIn", "values": ["web"]}
    merged = {"labelSelector": {"matchExpressions": [same, other]}, "topologyKey": "zone", **keys}
    remote, _ = translate(podAffinity={REQUIRED: [merged]})
    assert remote["affinity"]["podAffinity"][REQUIRED] == [
        {"labelSelector": {"matchExpressions": [same, other, OURS]}, "topologyKey": "zone"}
    ]


def test_label_keys_that_home_leaves_to_its_scheduler_are_written_out() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "matchLabelKeys": ["v", "absent"]}
    meant = {**spread, "labelSelector": SELECTOR}
    remote, _ = translate_neighbours({"topologySpreadConstraints": [meant, spread]}, {}, HOOD)
    revision = {"key": "v", "operator": "In", "values": ["7"]}
    assert remote["topologySpreadConstraints"] == [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "labelSelector": {**SELECTOR, "matchExpressions": [revision, OURS]},
        },
        {"maxSkew": 1, "topologyKey": "zone"},
    ]


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (
            {"labelSelector": SELECTOR, "topologyKey": "rack"},
            "podAffinity on rack doesn't travel: no physical node has that label",
        ),
        (
            {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}},
            OTHER_LABELS,
        ),
        (
            {
                "topologyKey": "zone",
                "namespaceSelector": {"matchLabels": {NAME: "a", "team": "a"}},
            },
            OTHER_LABELS,
        ),
        (
            {
                "topologyKey": "zone",
                "namespaceSelector": {
                    "matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["a"]}]
                },
            },
            OTHER_LABELS,
        ),
    ],
)
def test_what_cannot_hold_over_there_is_left_out_with_a_word(term: KubeObject, said: str) -> None:
    remote, lost = translate(
        podAffinity={REQUIRED: [term], PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}
    )
    assert remote == {}
    assert lost == [said, said]


def test_spread_is_counted_likewise() -> None:
    zone = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": SELECTOR}
    rack = {**zone, "topologyKey": "rack"}
    remote, lost = translate_neighbours({"topologySpreadConstraints": [zone, rack]}, {}, HOOD)
    assert remote == {"topologySpreadConstraints": [{**zone, "labelSelector": NARROWED}]}
    assert lost == [
        "topologySpreadConstraint on rack doesn't travel: no physical node has that label"
    ]


def test_nothing_said_is_nothing_added() -> None:
    assert translate_neighbours({}, {}, HOOD) == ({}, [])


_LABELS = st.dictionaries(st.sampled_from(["app", "v"]), st.sampled_from(["web", "7"]))
_TERMS = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "rack"])},
    optional={
        "labelSelector": st.none() | st.fixed_dictionaries({}, optional={"matchLabels": _LABELS}),
        "matchLabelKeys": st.lists(st.sampled_from(["v", "absent"]), unique=True),
        "namespaces": st.lists(st.sampled_from(["mine", "other"])),
        "namespaceSelector": st.none()
        | st.fixed_dictionaries({}, optional={"matchLabels": _LABELS}),
    },
)


@given(st.lists(_TERMS), st.lists(_TERMS))
def test_whatever_is_said_only_pods_of_this_home_cluster_count(
    together: list[KubeObject], apart: list[KubeObject]
) -> None:
    affinity = {"podAffinity": {REQUIRED: together}, "podAntiAffinity": {REQUIRED: apart}}
    before = copy.deepcopy(affinity)
    remote, lost = translate(**affinity)
    assert affinity == before
    found = [
        term for kind in remote.get("affinity", {}).values() for term in kind.get(REQUIRED, ())
    ]
    assert len(found) + len(lost) == len(together) + len(apart), "nothing goes without a word"
    for term in found:
        assert term["topologyKey"] in HOOD.topology_keys
        assert "matchLabelKeys" not in term
        assert all(name.endswith("-there") for name in term.get("namespaces", ()))
        selector = term.get("labelSelector")
        assert selector is None or OURS in selector["matchExpressions"]
