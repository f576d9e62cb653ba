"""What the API server's way to a kubelet port tells."""

from typing import Any

import pytest
from aiohttp import web

from provider.checkup.kubelet_port import MAX_NODES, check_kubelet_port, probe_kubelet_port
from tests.fakes.api_server import ApiCall, FakeApiServer
from tests.fakes.physical_nodes import raw_node
from tests.provider.checkup.world import World, open_world, show
from tests.provider.values import PEERING
from vkubelet.kube.objects import NODES


def put_node(world: World, name: str, *, port: int = 10250) -> None:
    endpoints = {"kubeletEndpoint": {"Port": port}} if port else {}
    world.home.put(raw_node(name, dict(PEERING.labels), daemonEndpoints=endpoints))


def answer(fake: FakeApiServer, status: int, body: Any) -> None:
    def respond(_: ApiCall) -> web.Response:
        if isinstance(body, str):
            return web.Response(status=status, text=body)
        return web.json_response(body, status=status)

    fake.handle("get nodes/proxy/healthz", respond)


def refusal(message: str, reason: str = "") -> dict[str, str]:
    return {"kind": "Status", "status": "Failure", "message": message, "reason": reason}


DIAL = "error trying to reach service: dial tcp 192.0.2.1:10250: connect: no route to host"
X509 = "error trying to reach service: tls: failed to verify certificate: x509: unknown authority"


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, "ok", "ok: cloud: the home API server reaches the port"),
        (403, "Forbidden (user=x)", "ok: cloud: the home API server reaches the port, and is"),
        (403, refusal("not you", "Forbidden"), "skipped: cloud: the port wasn't tried"),
        (400, refusal("address not allowed"), "skipped: cloud: the API server doesn't proxy to"),
        (400, refusal("strange"), "failure: cloud: strange"),
        (503, refusal(DIAL), f"failure: cloud: the home API server doesn't reach the port: {DIAL}"),
        (503, refusal(X509), "failure: cloud: the home API server reaches the port, but doesn't"),
    ],
)
async def test_answers(status: int, body: Any, said: str) -> None:
    async with open_world() as world:
        put_node(world, "cloud")
        answer(world.home, status, body)
        (found,) = show(await check_kubelet_port(world.around()))
        assert found.startswith(said)


async def test_some_of_many_nodes_are_tried() -> None:
    async with open_world() as world:
        put_node(world, "portless", port=0)
        for number in range(MAX_NODES + 2):
            put_node(world, f"n{number}")
        answer(world.home, 200, "ok")
        assert len(await check_kubelet_port(world.around())) == MAX_NODES


async def test_no_node_yet() -> None:
    async with open_world() as world:
        (finding,) = await check_kubelet_port(world.around())
        assert finding.message == "no virtual node is there yet"
        assert finding.advice.startswith("--probe ")


async def test_a_probe_needs_an_address_that_is_proxied_to() -> None:
    async with open_world() as world:
        assert show(await probe_kubelet_port(world.around())) == [
            "skipped: --probe needs --kubelet-address"
        ]
        (found,) = show(await probe_kubelet_port(world.around(kubelet={"address": "127.0.0.1"})))
        assert "doesn't proxy to a loopback address" in found
        around = world.around(kubelet={"address": "192.0.2.1"})
        (found,) = show(await probe_kubelet_port(around))
        assert found.startswith("failure: 192.0.2.1 can't be listened on here: ")
        assert world.home.objects(NODES) == []


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, "ok", "the home API server reaches the port"),
        (503, refusal(X509), "ok: the home API server reaches 0.0.0.0:"),
        (503, refusal(DIAL), "the home API server doesn't reach the port"),
    ],
)
async def test_a_probe_leaves_nothing_behind(status: int, body: Any, said: str) -> None:
    async with open_world() as world:
        tried: list[str] = []

        def create(call: ApiCall) -> dict[str, Any]:
            tried.append(call.body["metadata"]["name"])
            answer(world.home, status, body)
            return world.home.put(call.body)

        world.home.handle("create nodes", create)
        around = world.around(kubelet={"address": "0.0.0.0", "ports": "23000-23099"})
        (found,) = show(await probe_kubelet_port(around))
        assert said in found
        assert len(tried) == 1
        assert world.home.objects(NODES) == []
