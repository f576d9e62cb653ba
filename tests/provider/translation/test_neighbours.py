"""What pods say about each other, over there."""

from typing import Any

import pytest

from provider.translation.neighbours import Neighbourhood, translate_neighbours
from vkubelet.kube.objects import KubeObject

HOOD = Neighbourhood(
    home_cluster_uid="h-1",
    topology_keys=frozenset({"zone", "kubernetes.io/hostname"}),
    name_namespace="{}-there".format,
)
OURS = {"key": "vkubelet.io/home-cluster", "operator": "In", "values": ["h-1"]}
SELECTOR = {"matchLabels": {"app": "web"}}
NARROWED = {**SELECTOR, "matchExpressions": [OURS]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def translate(**affinity: Any) -> tuple[KubeObject, list[str]]:
    return translate_neighbours({}, affinity, HOOD)


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_terms_count_pods_of_this_home_cluster_only(kind: str) -> None:
    term = {"labelSelector": SELECTOR, "topologyKey": "zone", "matchLabelKeys": ["v"]}
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
    ("term", "said"),
    [
        (
            {"labelSelector": SELECTOR, "topologyKey": "rack"},
            "podAffinity on rack doesn't travel: no physical node has that label",
        ),
        (
            {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}},
            "podAffinity on zone doesn't travel: its namespaceSelector speaks of home's namespaces",
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
