"""A fake remote API server, a client to it, and a pod whose ports are forwarded."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from provider.streams.relay import RemoteStreams
from tests.fakes.api_server import FakeApiServer
from tests.provider.streams.far_side import ForwardingPod, over_spdy, over_tunnel
from vkubelet.streaming.portforward import PORT_FORWARD_PROTOCOL


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        yield fake


@pytest.fixture
async def remote(server: FakeApiServer) -> AsyncIterator[RemoteStreams]:
    async with server.client("remote") as client:
        yield RemoteStreams(client)


@pytest.fixture
def pod() -> ForwardingPod:
    return ForwardingPod()


@pytest.fixture
async def running(remote: RemoteStreams) -> AsyncIterator[RemoteStreams]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(remote.run())
        await asyncio.sleep(0)
        yield remote
        task.cancel()


@pytest.fixture(params=["tunnel", "spdy"])
def served(
    request: pytest.FixtureRequest, server: FakeApiServer, pod: ForwardingPod
) -> FakeApiServer:
    if request.param == "tunnel":
        server.handle("get pods/portforward", over_tunnel(pod.serve))
    else:
        server.handle("get pods/portforward", lambda _: web.Response(status=403))
        server.handle("create pods/portforward", over_spdy(pod.serve, PORT_FORWARD_PROTOCOL))
    return server
