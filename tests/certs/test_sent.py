"""What becomes of requests, by one watch for all; in virtual time."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from certs.errors import NotIssuedError
from certs.sent import SentRequests, read_certificate
from tests.fakes.api_server import FakeApiServer
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import CERTIFICATE_SIGNING_REQUESTS, KubeObject

pytestmark = pytest.mark.virtual_time

LABELS = {"owner": "us", "peering": "cloud"}


@pytest.fixture
async def sent(client: KubeClient) -> AsyncIterator[SentRequests]:
    requests = SentRequests(client, LABELS)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(requests.run())
        yield requests
        task.cancel()


def put(server: FakeApiServer, name: str, **status: Any) -> None:
    server.put(
        {
            "apiVersion": CERTIFICATE_SIGNING_REQUESTS.api_version,
            "kind": CERTIFICATE_SIGNING_REQUESTS.kind,
            "metadata": {"name": name, "labels": LABELS},
            "status": status,
        }
    )


async def wait(sent: SentRequests, name: str, within_seconds: float = 5.0) -> bytes:
    async with asyncio.timeout(within_seconds):
        return await sent.wait_issued(name)


async def test_certificate_that_comes(server: FakeApiServer, sent: SentRequests) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(sent.wait_issued("a"))
        await asyncio.sleep(1)
        put(server, "a")
        put(server, "b", certificate=base64.b64encode(b"other").decode())
        await asyncio.sleep(1)
        assert not waiting.done()
        put(server, "a", certificate=base64.b64encode(b"mine").decode())
    assert waiting.result() == b"mine"
    assert await wait(sent, "b") == b"other"
    assert server.watch_count() == 1


async def test_request_that_vanishes(server: FakeApiServer, sent: SentRequests) -> None:
    async def remove() -> None:
        await asyncio.sleep(1)
        server.cut_watches()
        server.remove(CERTIFICATE_SIGNING_REQUESTS, "", "a")

    put(server, "a")
    async with asyncio.TaskGroup() as group:
        group.create_task(remove())
        with pytest.raises(NotIssuedError, match="a: was deleted before it was answered"):
            await wait(sent, "a")


async def test_waiting_can_be_given_up(server: FakeApiServer, sent: SentRequests) -> None:
    put(server, "a")
    with pytest.raises(TimeoutError):
        await wait(sent, "a")
    put(server, "a", certificate=base64.b64encode(b"late").decode())
    assert await wait(sent, "a") == b"late"


def test_all_requests_of_the_cluster_are_not_watched(client: KubeClient) -> None:
    with pytest.raises(ValueError, match="every request of the cluster"):
        SentRequests(client, {})


@pytest.mark.parametrize(
    ("status", "certificate"),
    [
        ({}, None),
        ({"conditions": [{"type": "Approved", "status": "True"}]}, None),
        ({"conditions": None, "certificate": None}, None),
        ({"certificate": "b25l"}, b"one"),
    ],
)
def test_read_certificate(status: KubeObject, certificate: bytes | None) -> None:
    assert read_certificate({"metadata": {"name": "x"}, "status": status}) == certificate


def test_certificate_that_is_not_base64() -> None:
    with pytest.raises(NotIssuedError, match="isn't base64"):
        read_certificate({"metadata": {"name": "x"}, "status": {"certificate": "%"}})
