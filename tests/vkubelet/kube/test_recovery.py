"""A caller that gets an answer spares the others their back-off."""

import asyncio

import pytest

from tests.fakes.api_server import FakeApiServer
from vkubelet.kube.errors import KubeError
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import PODS, decode_cached
from vkubelet.kube.recovery import Recovery

pytestmark = pytest.mark.virtual_time


async def test_an_answer_wakes_those_who_wait_only_after_a_failure() -> None:
    recovery = Recovery()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(recovery.wait())
        recovery.note_answer()
        await asyncio.sleep(1)
        assert not waiting.done()
        recovery.note_failure()
        recovery.note_answer()


async def test_an_informer_is_back_as_soon_as_anybody_is_answered() -> None:
    async with (
        FakeApiServer() as fake,
        fake.client("home") as client,
        asyncio.TaskGroup() as group,
    ):
        informer = Informer(client, PODS, decode_cached)
        following = group.create_task(informer.run())
        await informer.wait_synced()
        await fake.stop()
        loop = asyncio.get_running_loop()
        await asyncio.sleep(300)  # by now it waits up to 30 s between tries
        await fake.start()
        answers: list[Exception | None] = []
        informer.add_failure_handler(answers.append)
        started = loop.time()
        fake.fail_next("GET /readyz", 500)
        with pytest.raises(KubeError):
            await client.get_bytes("/readyz")
        await client.get_bytes("/version")
        await fake.wait_for_watches()
        assert loop.time() - started < 1
        following.cancel()
