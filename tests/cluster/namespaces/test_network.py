"""Addresses of pods at home."""

from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.namespaces.conftest import NODE
from tests.cluster.namespaces.peerings import build_for, find_there, run_peering
from tests.cluster.product.cloud import create, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]


def build_service(name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    }


async def list_endpoints(home: Cluster, service: str, namespace: str) -> list[dict[str, Any]]:
    """List the endpoints of a Service; there must be an EndpointSlice."""
    selector = f"-l=kubernetes.io/service-name={service}"
    slices: list[dict[str, Any]] = []

    async def made() -> bool:
        listed = await home.kubectl("get", "endpointslices", f"-n={namespace}", selector, "-o=json")
        slices[:] = listed.json()["items"]
        return bool(slices)

    await wait_until(made, f"EndpointSlice of {service}")
    return [endpoint for item in slices for endpoint in item.get("endpoints") or ()]


async def test_routed_addresses_stand_in_endpoint_slices_as_home_reaches_them(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    await create(home, build_service("web", namespace), build_for(NODE, "web", namespace))
    pod = await wait_pod(home, "web", namespace, "web", phase="Running")
    there = (await find_there(remote, pod))["status"]["podIP"]
    assert there.startswith("10.199.")
    here = there.replace("10.199.", "10.77.", 1)
    assert pod["status"]["podIP"] == here
    assert pod["status"]["podIPs"] == [{"ip": here}]

    async def listed() -> bool:
        return [
            (endpoint["addresses"], endpoint["conditions"]["ready"])
            for endpoint in await list_endpoints(home, "web", namespace)
        ] == [([here], True)]

    await wait_until(listed, "the endpoint is the address that home reaches")


async def test_addresses_that_nobody_can_reach_do_not(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    async with run_peering(home, remote, "unrouted", f"--namespace={namespace}"):
        both = build_service("web", namespace), build_for("unrouted", "web", namespace)
        await create(home, *both)
        pod = await wait_pod(home, "web", namespace, "web", phase="Running")
        assert (await find_there(remote, pod))["status"]["podIP"]
        assert "podIP" not in pod["status"]
        assert await list_endpoints(home, "web", namespace) == []
    await home.kubectl("delete", "node", "unrouted", "--wait=false")
