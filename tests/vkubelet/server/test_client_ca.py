import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.fakes.api_server import FakeApiServer
from tests.vkubelet.server.harness import CLIENT_CA, OTHER_CA
from vkubelet.kube.objects import CONFIG_MAPS
from vkubelet.server.client_ca import KEY, NAME, NAMESPACE, ClientCa

pytestmark = pytest.mark.virtual_time


def put(api: FakeApiServer, pem: str | None) -> None:
    api.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": NAMESPACE, "name": NAME},
            "data": {} if pem is None else {KEY: pem},
        }
    )


@asynccontextmanager
async def follow(api: FakeApiServer) -> AsyncGenerator[ClientCa, None]:
    async with api.client("home") as client, asyncio.TaskGroup() as group:
        client_ca = ClientCa(client)
        running = group.create_task(client_ca.run())
        await client_ca.wait_synced()
        yield client_ca
        running.cancel()


async def test_bundle_is_followed() -> None:
    async with FakeApiServer() as api:
        put(api, CLIENT_CA.pem)
        async with follow(api) as client_ca:
            assert client_ca.pem == CLIENT_CA.pem
            bundles: asyncio.Queue[str] = asyncio.Queue()
            client_ca.add_handler(bundles.put_nowait)
            assert await bundles.get() == CLIENT_CA.pem
            await api.wait_for_watches()
            put(api, CLIENT_CA.pem + OTHER_CA.pem)
            assert await bundles.get() == CLIENT_CA.pem + OTHER_CA.pem
            client_ca.remove_handler(bundles.put_nowait)
        (call, *_) = [*api.calls("watch configmaps"), *api.calls("list configmaps")]
        assert call.query["fieldSelector"] == f"metadata.name={NAME}"


async def test_bad_bundles_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApiServer() as api:
        put(api, CLIENT_CA.pem)
        async with follow(api) as client_ca:
            bundles: asyncio.Queue[str] = asyncio.Queue()
            client_ca.add_handler(bundles.put_nowait)
            await bundles.get()
            await api.wait_for_watches()
            with caplog.at_level(logging.WARNING):
                for bad in (None, "", "rubbish", OTHER_CA.pem.replace("MII", "XII")):
                    put(api, bad)
                api.remove(CONFIG_MAPS, NAMESPACE, NAME)
                put(api, OTHER_CA.pem)
                assert await bundles.get() == OTHER_CA.pem
            assert "the former one stays" in caplog.text


async def test_absent_config_map_is_known_to_be_absent() -> None:
    async with FakeApiServer() as api, follow(api) as client_ca:
        assert client_ca.pem is None
        bundles: asyncio.Queue[str] = asyncio.Queue()
        client_ca.add_handler(bundles.put_nowait)
        await api.wait_for_watches()
        put(api, CLIENT_CA.pem)
        assert await bundles.get() == CLIENT_CA.pem
