"""The remote API is reachable when the probe and every watch say so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from provider.reachability import Reachability
from tests.fakes.api_server import FakeApiServer

pytestmark = pytest.mark.virtual_time


@asynccontextmanager
async def probing(fake: FakeApiServer) -> AsyncIterator[tuple[Reachability, list[str | None]]]:
    async with fake.client("remote") as client:
        reachability = Reachability(client)
        told: list[str | None] = []
        reachability.add_handler(told.append)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(reachability.run())
            await asyncio.sleep(1)
            yield reachability, told
            task.cancel()


async def test_unknown_before_the_first_answer() -> None:
    async with FakeApiServer() as fake, fake.client("remote") as client:
        reachability = Reachability(client)
        told: list[str | None] = []
        reachability.add_handler(told.append)
        assert (reachability.trouble, told) == ("", [])


async def test_goes_and_comes_back_within_a_probe() -> None:
    async with FakeApiServer() as fake, probing(fake) as (reachability, told):
        assert told == [None]
        await fake.stop()
        await asyncio.sleep(6)
        assert len(told) == 2
        assert told[1]
        await fake.start()
        await asyncio.sleep(6)
        assert reachability.trouble is None
        assert told[2:] == [None]


@pytest.mark.parametrize(
    ("status", "is_trouble"), [(401, True), (403, False), (404, False), (429, True), (500, True)]
)
async def test_which_answers_count(status: int, is_trouble: bool) -> None:
    async with FakeApiServer() as fake:
        fake.fail_next("GET /readyz", status, times=1000)
        async with probing(fake) as (reachability, _):
            await asyncio.sleep(60)
            assert bool(reachability.trouble) is is_trouble


async def test_a_server_that_hangs_is_trouble() -> None:
    async with FakeApiServer() as fake:
        fake.delay_next("GET /readyz", 3600)
        async with probing(fake) as (reachability, _):
            await asyncio.sleep(5)
            assert reachability.trouble == "no answer within 5 s"


async def test_a_watch_that_fails_is_trouble_until_it_is_answered() -> None:
    async with FakeApiServer() as fake, probing(fake) as (reachability, told):
        report = reachability.failure_handler("pods")
        report(ConnectionError("refused"))
        report(ConnectionError("still"))
        assert reachability.trouble == "still"
        report(None)
        assert told == [None, "refused", None]


async def test_a_late_handler_is_told_at_once() -> None:
    async with FakeApiServer() as fake, probing(fake) as (reachability, _):
        told: list[str | None] = []
        reachability.add_handler(told.append)
        assert told == [None]
