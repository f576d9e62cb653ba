"""Pods on some nodes."""

import pytest

from provider.bound_pods import list_pods_on
from tests.fakes.api_server import FakeApiServer
from tests.provider.overview.values import build_pod
from vkubelet.pods.home import MAX_NODES_APART


@pytest.mark.parametrize("others", [0, MAX_NODES_APART])
async def test_those_bound_to_the_nodes(others: int) -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        for name, node in (("a", "n1"), ("b", "n2"), ("c", "n3"), ("d", "")):
            fake.put(build_pod(name, node))
        nodes = ["n1", "n2", *(f"m{number}" for number in range(others))]
        found = await list_pods_on(client, nodes)
        assert sorted(pod["metadata"]["name"] for pod in found) == ["a", "b"]
        calls = fake.calls("list pods")
        assert len(calls) == (1 if others else 2)
        assert all("fieldSelector" in call.query for call in calls)
