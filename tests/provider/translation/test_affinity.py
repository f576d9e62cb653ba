import copy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from provider.translation.affinity import (
    REASON_NO_NODES,
    REASON_NODE_AFFINITY,
    VirtualNodeView,
    confine_pod,
)
from provider.translation.selection import Selection, SelectionTerm
from tests.fakes.node_affinity import allows, field_holds, label_holds
from vkubelet.errors import RefusedError
from vkubelet.kube.selector import Operator, Requirement, parse_selector

NODE = VirtualNodeView(
    "vn",
    {"type": "virtual-kubelet", "kubernetes.io/hostname": "vn", "team": "blue", "disk": "ssd"},
    frozenset({"team"}),
)
SELECTION = Selection.of_selector(parse_selector("pool=gpu"))
POOL = {"key": "pool", "operator": "In", "values": ["gpu"]}
ZONE_A = {"key": "zone", "operator": "In", "values": ["a"]}
ZONE_B = {"key": "zone", "operator": "In", "values": ["b"]}
IS_VIRTUAL = {"key": "type", "operator": "In", "values": ["virtual-kubelet"]}
NOT_VIRTUAL = {"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}
ON_NODE = {"key": "metadata.name", "operator": "In", "values": ["vn"]}
ELSEWHERE = {"key": "metadata.name", "operator": "In", "values": ["other"]}


def with_terms(*terms: dict[str, Any], **spec: Any) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"affinity": {"nodeAffinity": required}, **spec}


def expressions(*requirements: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": [*requirements]}


def terms_of(confined: dict[str, Any]) -> Any:
    required = confined["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    return required["nodeSelectorTerms"]


@pytest.mark.parametrize(
    ("spec", "terms"),
    [
        pytest.param({}, [expressions(POOL)], id="no constraints: the selection alone"),
        pytest.param({"affinity": None}, [expressions(POOL)], id="null affinity"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, [expressions(POOL)], id="empty affinity"),
        pytest.param(
            with_terms(expressions(ZONE_A)), [expressions(ZONE_A, POOL)], id="own term travels"
        ),
        pytest.param(
            with_terms(expressions(ZONE_A), expressions(ZONE_B)),
            [expressions(ZONE_A, POOL), expressions(ZONE_B, POOL)],
            id="into every term",
        ),
        pytest.param(
            with_terms(expressions(IS_VIRTUAL, ZONE_A)),
            [expressions(ZONE_A, POOL)],
            id="true at home: requirement dropped",
        ),
        pytest.param(
            with_terms(expressions(IS_VIRTUAL)),
            [expressions(POOL)],
            id="all true at home: selection alone",
        ),
        pytest.param(
            with_terms(expressions(NOT_VIRTUAL, ZONE_A), expressions(ZONE_B)),
            [expressions(ZONE_B, POOL)],
            id="false at home: its term dropped",
        ),
        pytest.param(
            with_terms({"matchFields": [ON_NODE]}),
            [expressions(POOL)],
            id="DaemonSet's own matchFields",
        ),
        pytest.param(
            with_terms({"matchFields": [ELSEWHERE]}, expressions(ZONE_A)),
            [expressions(ZONE_A, POOL)],
            id="another node by field",
        ),
        pytest.param(
            with_terms({}, {"matchExpressions": []}, expressions(ZONE_A)),
            [expressions(ZONE_A, POOL)],
            id="empty terms match nothing",
        ),
        pytest.param(
            with_terms(expressions({"key": "team", "operator": "Exists"})),
            [expressions(POOL)],
            id="key of --node-label",
        ),
        pytest.param(with_terms(expressions(POOL)), [expressions(POOL)], id="no requirement twice"),
        pytest.param(
            with_terms({**expressions(ZONE_A), "newField": 1}),
            [{**expressions(ZONE_A, POOL), "newField": 1}],
            id="unknown fields of a term survive",
        ),
    ],
)
def test_required_terms(spec: dict[str, Any], terms: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(spec)
    assert terms_of(confine_pod(spec, NODE, SELECTION)) == terms
    assert spec == before


def test_terms_are_crossed_with_a_selection_of_several() -> None:
    selection = Selection.of_names(["n1", "n2"])
    confined = confine_pod(with_terms(expressions(ZONE_A), expressions(ZONE_B)), NODE, selection)
    fields = [{"key": "metadata.name", "operator": "In", "values": [n]} for n in ("n1", "n2")]
    assert terms_of(confined) == [
        {"matchExpressions": [zone], "matchFields": [field]}
        for zone in (ZONE_A, ZONE_B)
        for field in fields
    ]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(with_terms(expressions(NOT_VIRTUAL)), id="only term is false at home"),
        pytest.param(with_terms({}), id="only an empty term"),
        pytest.param(with_terms(), id="no terms"),
        pytest.param(with_terms({"matchFields": [ELSEWHERE]}), id="bound to another node"),
        pytest.param(
            with_terms({"matchFields": [{**ON_NODE, "values": ["vn", "x"]}]}), id="two names"
        ),
        pytest.param(
            with_terms(expressions({"key": "type", "operator": "Near", "values": ["x"]})),
            id="unknown operator",
        ),
        pytest.param(
            with_terms(expressions({"key": "type", "operator": "NotIn", "values": ["not valid"]})),
            id="value that the scheduler refuses",
        ),
        pytest.param({"nodeSelector": {"type": "real"}}, id="nodeSelector is false at home"),
        pytest.param({"nodeSelector": {"team": "red"}}, id="nodeSelector on a --node-label"),
    ],
)
def test_a_pod_that_matches_nothing_is_refused_and_never_gets_the_selection_alone(
    spec: dict[str, Any],
) -> None:
    with pytest.raises(RefusedError) as caught:
        confine_pod(spec, NODE, SELECTION)
    assert caught.value.reason == REASON_NODE_AFFINITY
    assert "vn" in caught.value.message


def test_a_selection_of_no_nodes_is_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        confine_pod({}, NODE, Selection())
    assert caught.value.reason == REASON_NO_NODES


def test_node_selector_travels_without_what_home_decided() -> None:
    spec = {"nodeSelector": {"type": "virtual-kubelet", "team": "blue", "disk": "ssd"}}
    assert confine_pod(spec, NODE, SELECTION)["nodeSelector"] == {"disk": "ssd"}
    assert "nodeSelector" not in confine_pod({"nodeSelector": {"team": "blue"}}, NODE, SELECTION)


def test_preferred_terms_and_pod_affinity_stay() -> None:
    preferred = [{"weight": 1, "preference": expressions(IS_VIRTUAL)}]
    spec = {
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
            "podAffinity": {"x": 1},
            "podAntiAffinity": {"y": 2},
        }
    }
    affinity = confine_pod(spec, NODE, SELECTION)["affinity"]
    assert affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert affinity["podAffinity"] == {"x": 1}
    assert affinity["podAntiAffinity"] == {"y": 2}


# Few values of each, so that matches are as frequent as mismatches.
PHYSICAL_KEYS = ("a", "b")
HOME_KEYS = ("type", "kubernetes.io/hostname", "vkubelet.io/x", "team")
KEYS = st.sampled_from([*PHYSICAL_KEYS, *PHYSICAL_KEYS, *HOME_KEYS])
VALUES = st.sampled_from(["1", "2"])
ODD_VALUES = st.sampled_from(["10", "", "not valid", "+5"])
SET_EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": KEYS,
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(VALUES, min_size=1, max_size=2),
    }
)
ODD_EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": KEYS,
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"]),
    },
    optional={"values": st.lists(VALUES | ODD_VALUES, max_size=2)},
)
EXISTS_EXPRESSIONS = st.fixed_dictionaries(
    {"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}
)
EXPRESSIONS = SET_EXPRESSIONS | EXISTS_EXPRESSIONS | ODD_EXPRESSIONS
FIELDS = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.sampled_from([["vn"], ["vn"], ["n1"], ["n1", "vn"]]),
    }
)
OWN_TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(EXPRESSIONS, max_size=2),
        "matchFields": st.lists(FIELDS, max_size=1),
    },
)
SPECS = st.builds(
    lambda node_selector, terms: {
        **({} if node_selector is None else {"nodeSelector": node_selector}),
        **({} if terms is None else with_terms(*terms)),
    },
    st.none() | st.dictionaries(KEYS, VALUES, max_size=1),
    st.none() | st.lists(OWN_TERMS, max_size=3),
)
LABELS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys((*PHYSICAL_KEYS, *HOME_KEYS), VALUES | ODD_VALUES)
)
REQUIREMENTS = st.one_of(
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.lists(VALUES, min_size=1, max_size=2, unique=True).map(tuple),
    ),
    st.builds(Requirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(Requirement, KEYS, st.sampled_from([Operator.GT, Operator.LT]), st.just(("1",))),
)
SELECTIONS = st.lists(
    st.builds(
        SelectionTerm,
        st.lists(REQUIREMENTS, min_size=1, max_size=1).map(tuple),
        st.sampled_from([None, None, "n1"]),
    ),
    min_size=1,
    max_size=2,
).map(lambda terms: Selection(tuple(terms)))
NODES = st.lists(st.tuples(st.sampled_from(["n1", "n2"]), LABELS), min_size=3, max_size=8)


def is_home_key(key: str) -> bool:
    return key in HOME_KEYS


def own_constraints_allow(
    spec: dict[str, Any],
    virtual_labels: dict[str, str],
    name: str,
    labels: dict[str, str],
) -> bool:
    """The pod's own constraints, with home-only requirements held against the virtual node."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if (virtual_labels if is_home_key(key) else labels).get(key) != value:
            return False
    if "affinity" not in spec:
        return True
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(field_holds(field, "vn") for field in term.get("matchFields") or [])
        and all(
            label_holds(item, virtual_labels if is_home_key(item["key"]) else labels)
            for item in term.get("matchExpressions") or []
        )
        for term in terms_of(spec)
    )


@settings(max_examples=300)
@given(SPECS, LABELS, SELECTIONS, NODES)
def test_a_node_is_allowed_iff_selected_and_allowed_by_the_pods_own_terms(
    spec: dict[str, Any],
    virtual_labels: dict[str, str],
    selection: Selection,
    nodes: list[tuple[str, dict[str, str]]],
) -> None:
    before = copy.deepcopy(spec)
    view = VirtualNodeView("vn", virtual_labels, frozenset({"team"}))
    try:
        confined: dict[str, Any] | None = confine_pod(spec, view, selection)
    except RefusedError:
        confined = None
    assert spec == before
    for name, labels in nodes:
        expected = selection.matches(name, labels) and own_constraints_allow(
            spec, virtual_labels, name, labels
        )
        allowed = confined is not None and allows(confined, name, labels)
        assert allowed is bool(expected)
