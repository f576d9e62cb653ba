import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from provider.reflection.watches import Watches
from tests.fakes.api_server import FakeApiServer
from vkubelet.kube.errors import ForbiddenError
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import CONFIG_MAPS, CachedObject, decode_cached

pytestmark = pytest.mark.virtual_time


@asynccontextmanager
async def run(fake: FakeApiServer, settled: list[str]) -> AsyncIterator[Watches[str, CachedObject]]:
    async with fake.client("home") as client:

        def build(namespace: str) -> Informer[CachedObject]:
            return Informer(client, CONFIG_MAPS, decode_cached, namespace=namespace)

        watches = Watches("test", build, settled.append)
        watches.open("early")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(watches.run())
            await asyncio.sleep(1)
            yield watches
            task.cancel()


async def test_they_are_opened_as_asked_for_and_closed() -> None:
    settled: list[str] = []
    async with FakeApiServer() as fake, run(fake, settled) as watches:
        assert settled == ["early"]
        watch = await watches.wait_settled("a", timeout_seconds=5)
        assert watch is not None
        assert watch.informer.synced
        assert watches.scopes == {"early", "a"}
        assert fake.watch_count() == 2
        watches.open("a")
        watches.close("early")
        watches.close("never opened")
        await asyncio.sleep(1)
        assert fake.watch_count() == 1
        assert watches.get("early") is None
        await watches.wait_settled("early", timeout_seconds=5)
        assert settled == ["early", "a", "early"]


async def test_trouble_is_told_at_once_and_goes() -> None:
    settled: list[str] = []
    async with FakeApiServer() as fake, run(fake, settled) as watches:
        fake.fail_next("* configmaps", 403, reason="Forbidden", times=3)
        watch = await watches.wait_settled("a", timeout_seconds=5)
        assert watch is not None
        assert isinstance(watch.trouble, ForbiddenError)
        assert not watch.informer.synced
        await asyncio.sleep(60)
        assert settled == ["early", "a"]
        assert watches.get("a") is watch
        assert str(watch.trouble) == "None"


async def test_what_takes_too_long_is_none() -> None:
    async with FakeApiServer() as fake, run(fake, []) as watches:
        fake.delay_next("* configmaps", 60)
        assert await watches.wait_settled("a", timeout_seconds=5) is None


async def test_nothing_is_open_before_it_runs_and_after() -> None:
    async with FakeApiServer() as fake:
        async with run(fake, []) as watches:
            pass
        assert await watches.wait_settled("b", timeout_seconds=5) is None
        assert fake.watch_count() == 0


async def test_closing_lets_nobody_wait() -> None:
    async with FakeApiServer() as fake, run(fake, []) as watches:
        fake.delay_next("* configmaps", 60)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(watches.wait_settled("a", timeout_seconds=50))
            await asyncio.sleep(1)
            watches.close("a")
        assert waiting.done()
        assert asyncio.get_running_loop().time() < 10
