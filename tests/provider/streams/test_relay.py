"""The streams of remote pods, as the provider uses them."""

import asyncio

import pytest

from provider.streams.relay import RemoteStreams
from tests.fakes.api_server import FakeApiServer
from tests.provider.streams.caller import Caller
from tests.provider.streams.forwards import KEY, connect
from vkubelet.errors import RequestError
from vkubelet.interface import LogOptions


async def test_failures_are_in_homes_words(server: FakeApiServer, remote: RemoteStreams) -> None:
    message = 'pods "web" not found in "shop-home"'
    told = 'pods "web" not found in "shop"'
    async with asyncio.TaskGroup() as group:
        task = group.create_task(remote.run())
        await asyncio.sleep(0)
        for verb in ("log", "exec", "attach", "portforward"):
            server.fail_next(f"get pods/{verb}", 404, message=message)
        with pytest.raises(RequestError) as caught:
            await anext(remote.logs(KEY, "main", LogOptions(), home_namespace="shop"))
        assert str(caught.value) == told
        with pytest.raises(RequestError) as caught:
            await remote.exec(KEY, "main", ["a"], Caller(), tty=False, home_namespace="shop")
        assert str(caught.value) == told
        with pytest.raises(RequestError) as caught:
            await remote.attach(KEY, "main", Caller(), tty=False, home_namespace="shop")
        assert str(caught.value) == told
        with pytest.raises(RequestError) as caught:
            async with connect(remote):
                pass
        assert str(caught.value) == told
        task.cancel()
