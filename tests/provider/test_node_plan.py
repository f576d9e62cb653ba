"""From flags to the mapping and its rules."""

from decimal import Decimal
from typing import Any

import pytest

from provider.config import PlanConfig
from provider.configuration import load_config
from provider.errors import ConfigError
from provider.mapping.groups import NodeMapping
from provider.node_plan import build_mapping, build_node_plan
from provider.nodes.remote_nodes import NodePlan
from tests.fakes.physical_nodes import make_node
from tests.provider.values import PEERING
from vkubelet.interface import Taint

NODES = [make_node("n1", {"zone": "a"}), make_node("n2", {"zone": "b"})]


def load(**flags: Any) -> PlanConfig:
    given = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    base = {"--remote-cluster": "cloud", "--remote-kubeconfig": "remote.kubeconfig"}
    return load_config(PlanConfig, file=None, environment={}, flags={**base, **given})


def mapping(**flags: Any) -> NodeMapping:
    config = load(**flags)
    return build_mapping(config.nodes, config.remote.cluster)


def plan(**flags: Any) -> NodePlan:
    config = load(**flags)
    return build_node_plan(config.nodes, config.capacity, mapping(**flags), PEERING)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({}, ["cloud"]),
        ({"node_name": "far"}, ["far"]),
        (
            {"node_mapping": "selector", "virtual_node": ["a=zone=a", "rest=zone!=a"]},
            ["a", "rest"],
        ),
        ({"node_mapping": "label", "mapping_label": "zone"}, ["cloud-a", "cloud-b"]),
        ({"node_mapping": "per-node"}, ["cloud-n1", "cloud-n2"]),
        ({"node_mapping": "per-node", "node_name_prefix": "far."}, ["far.n1", "far.n2"]),
        ({"node_mapping": "per-node", "exact_node_names": True}, ["n1", "n2"]),
    ],
)
def test_modes_and_names(flags: dict[str, Any], names: list[str]) -> None:
    assert [group.name for group in mapping(**flags).group_nodes(NODES)] == names


def test_a_plugin_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"--node-mapping: there is no node mapping 'zones'.*built in"
    ):
        mapping(node_mapping="zones")


def test_rules_limits_and_settings() -> None:
    built = plan(
        node_selector="zone=a",
        tolerate=["gpu"],
        capacity_percent="50",
        capacity_limit=["cpu=8"],
        max_nodes_per_virtual_node="3",
        node_label=["team=red"],
        node_annotation=["note=b=c"],
        node_taint=["team=red:NoExecute"],
        no_default_taint=True,
        node_label_exclude=["corp/*"],
    )
    assert str(built.rules.node_selector) == "zone=a"
    assert [str(taint) for taint in built.rules.accepted_taints] == ["gpu"]
    assert (built.offer.percent, built.offer.limits) == (50, {"cpu": Decimal(8)})
    assert built.max_nodes == 3
    settings = built.settings
    assert settings.labels == {"team": "red"}
    assert settings.annotations == {"note": "b=c"}
    assert settings.taints == (Taint(key="team", value="red", effect="NoExecute"),)
    assert not settings.default_taint
    assert settings.excluded_labels == ("corp/*",)
