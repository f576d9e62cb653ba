"""Virtual nodes and what they offer, as configured (see also test_configuration)."""

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from provider.checks import CapacityLimit, Duration
from provider.node_config import CapacityConfig, ForeignUse, NodeConfig, RemovalConfig

SELECTOR = {"mapping": "selector", "virtualNodes": ["gpu=a=b"]}
GOOD: list[dict[str, Any]] = [
    {},
    {"name": "far"},
    SELECTOR,
    {"mapping": "label", "mappingLabel": "zone", "namePrefix": "x-"},
    {"mapping": "per-node", "exactNames": True, "maxNodes": 3},
    {"mapping": "somebodys-plugin", "maxNodes": 3},
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"mapping": "somebodys-plugin", "exactNames": True}, "--exact-node-names goes with"),
    ({**SELECTOR, "name": "x"}, "--node-name goes with --node-mapping cluster only"),
    ({**SELECTOR, "mappingLabel": "zone"}, "--mapping-label goes with --node-mapping label only"),
    ({"mapping": "label"}, "--mapping-label is required"),
]


@pytest.mark.parametrize("values", GOOD)
def test_what_goes_together(values: dict[str, Any]) -> None:
    NodeConfig.model_validate(values)


@pytest.mark.parametrize(("values", "said"), BAD)
def test_what_does_not(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        NodeConfig.model_validate(values)


def test_what_is_offered() -> None:
    config = CapacityConfig.model_validate(
        {"percent": 50, "limits": ["memory=1Gi"], "foreignUse": "ignore"}
    )
    assert config.limits == (CapacityLimit("memory", Decimal(2**30)),)
    assert config.foreign_use is ForeignUse.IGNORE


def test_times_of_the_end() -> None:
    config = RemovalConfig.model_validate({"delay": "1m", "drainTimeout": 30})
    assert (config.delay, config.drain_timeout) == (Duration(60), Duration(30))
