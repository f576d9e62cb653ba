"""`vkubelet status` on a home API server."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from provider.command_config import StatusConfig
from provider.commands.status import WATCH_SECONDS, main, show_status
from provider.errors import StartError
from tests.fakes.api_server import FakeApiServer
from tests.provider.overview.values import build_lock, build_pod, build_virtual_node

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def home() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        fake.put(build_virtual_node("cloud"))
        fake.put(build_lock(renewed=datetime.now(UTC).isoformat()))
        fake.put(build_pod("web"))
        yield fake


def config(kubeconfig: Path, **remote: str) -> StatusConfig:
    return StatusConfig.model_validate({"home": {"kubeconfig": kubeconfig}, "remote": remote})


async def test_once(home: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = home.write_kubeconfig()
    await show_status(config(kubeconfig), output="table", watch=False)
    assert capsys.readouterr().out.startswith("Peering cloud: ready; version 0.1.0\n")
    await show_status(config(kubeconfig), output="json", watch=False)
    assert json.loads(capsys.readouterr().out)["peerings"][0]["pods"] == {"Running": 1}
    await show_status(config(kubeconfig, cluster="other"), output="yaml", watch=False)
    assert yaml.safe_load(capsys.readouterr().out)["peerings"][0]["virtualNodes"] == []
    assert {call.verb for call in home.requests} == {"list"}


async def test_watching_follows_what_changes_and_outlives_trouble(
    home: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    home.fail_next("list pods", 500)
    with pytest.raises(StartError, match="made to fail"):
        await show_status(config(home.write_kubeconfig()), output="yaml", watch=True)

    async def change() -> None:
        await asyncio.sleep(WATCH_SECONDS * 1.5)
        home.put(build_pod("web2"))
        await asyncio.sleep(WATCH_SECONDS)
        home.fail_next("list nodes", 500, message="hurt", times=100)
        await asyncio.sleep(WATCH_SECONDS)
        raise InterruptedError

    async def watch() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(change())
            await show_status(config(home.write_kubeconfig()), output="yaml", watch=True)

    with pytest.raises(ExceptionGroup) as caught:
        await watch()
    assert caught.group_contains(InterruptedError)
    seen = list(yaml.safe_load_all(capsys.readouterr().out))
    counts = [item["peerings"][0]["pods"]["Running"] for item in seen if item]
    assert counts[:2] == [1, 1]
    assert counts[-1] == 2
    assert "hurt" in [item for item in seen if item][-1]["trouble"]


def test_a_cluster_that_cannot_be_reached(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="/none"):
        main(config(Path("/none")), output="table", watch=False)
