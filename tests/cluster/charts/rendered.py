"""Hooks of the charts, applied without Helm: no kubelet runs their pods here."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.charts.rendering import HOME, NAMESPACE as RENDERED_FOR, is_hook, render
from tests.cluster.charts.installation import NAMESPACE
from tests.cluster.cluster import Cluster


async def read_hooks(values: Mapping[str, Any], event: str) -> list[dict[str, Any]]:
    """Render the hooks of an event, for the namespace of the releases."""
    objects = await asyncio.to_thread(render, HOME, values)
    hooks = [
        found
        for found in objects
        if is_hook(found) and found["metadata"]["annotations"]["helm.sh/hook"] == event
    ]
    for found in hooks:
        for reference in (found["metadata"], *found.get("subjects", ())):
            if reference.get("namespace") == RENDERED_FOR:
                reference["namespace"] = NAMESPACE
    return hooks


async def apply(cluster: Cluster, objects: Sequence[Mapping[str, Any]]) -> None:
    """Apply objects."""
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}).decode()
    await cluster.kubectl("apply", "--filename=-", stdin=text)
