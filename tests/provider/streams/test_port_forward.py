"""Connections to ports of remote pods: shared upstreams, failures."""

import asyncio

import pytest

from provider.streams.relay import RemoteStreams
from tests.fakes.api_server import FakeApiServer
from tests.provider.streams.far_side import ForwardingPod
from tests.provider.streams.forwards import connect, read_all
from vkubelet.errors import RequestError


async def test_both_directions(
    served: FakeApiServer, running: RemoteStreams, pod: ForwardingPod
) -> None:
    sent = bytes(range(256)) * 1000
    async with connect(running) as stream, asyncio.TaskGroup() as group:

        async def send() -> None:
            await stream.write(sent)
            await stream.write_eof()

        group.create_task(send())
        assert await read_all(stream) == sent
    assert pod.opened == [80]


async def test_many_share_one(
    served: FakeApiServer, running: RemoteStreams, pod: ForwardingPod
) -> None:
    async def talk(number: int) -> None:
        text = f"hello {number} ".encode() * 5000
        async with connect(running, 8000 + number) as stream:
            async with asyncio.TaskGroup() as group:
                group.create_task(stream.write(text))
                read = b""
                while len(read) < len(text):
                    read += await stream.read()
            await stream.write_eof()
            assert read + await read_all(stream) == text

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(talk(number))
    assert pod.upstreams == 1
    assert sorted(pod.opened) == list(range(8000, 8020))


async def test_nobody_listens(
    served: FakeApiServer, running: RemoteStreams, pod: ForwardingPod
) -> None:
    pod.refusals[81] = (
        "error forwarding port 81 to pod 7f3a, uid : failed to connect to localhost:81 inside"
        ' namespace of "web_shop-home": dial tcp4 127.0.0.1:81: connect: connection refused'
    )
    async with connect(running, 80) as healthy:
        async with connect(running, 81) as stream:
            with pytest.raises(RequestError) as caught:
                await stream.read()
            with pytest.raises(ConnectionError):
                await stream.write(b"x")
        assert str(caught.value) == (
            'failed to connect to localhost:81 inside namespace of "web_shop": '
            "dial tcp4 127.0.0.1:81: connect: connection refused"
        )
        async with connect(running, 82) as stream:
            await stream.write(b"other")
            assert await stream.read() == b"other"
        assert pod.upstreams == 2  # one that reported an error isn't for new connections
        await healthy.write(b"still")
        assert await healthy.read() == b"still"


async def test_leaving_early_resets(
    served: FakeApiServer, running: RemoteStreams, pod: ForwardingPod
) -> None:
    async with connect(running) as stream:
        await stream.write(b"x")
        assert await stream.read() == b"x"
    while not pod.resets:
        pod.progress.clear()
        await pod.progress.wait()
    assert pod.upstreams == 1


async def test_a_cut_upstream(
    served: FakeApiServer, running: RemoteStreams, pod: ForwardingPod
) -> None:
    async with connect(running) as stream:
        await stream.write(b"x")
        assert await stream.read() == b"x"
        pod.cut.set()
        await served.stop()
        with pytest.raises(ConnectionError, match="the connection to the remote cluster broke"):
            await stream.read()
        with pytest.raises(ConnectionError):
            await stream.write(b"y")
    pod.cut.clear()
    await served.start()
    async with connect(running) as stream:
        await stream.write(b"again")
        assert await stream.read() == b"again"
    assert pod.upstreams == 2


async def test_another_pod_of_that_name(
    served: FakeApiServer, running: RemoteStreams, pod: ForwardingPod
) -> None:
    for uid in ("uid-1", "uid-2"):
        async with connect(running, uid=uid) as stream:
            await stream.write(b"x")
            assert await stream.read() == b"x"
    assert pod.upstreams == 2


@pytest.mark.parametrize(
    ("code", "text"),
    [(404, 'pods "web" not found'), (403, "the remote cluster refuses: vkubelet cannot x in shop")],
)
async def test_refusals_are_told(
    server: FakeApiServer, running: RemoteStreams, code: int, text: str
) -> None:
    message = 'pods "web" is forbidden: User "us" cannot x in shop-home' if code == 403 else text
    server.fail_next("get pods/portforward", code, message=message)
    with pytest.raises(RequestError) as caught:
        async with connect(running):
            pass
    assert (caught.value.code, str(caught.value)) == (code, text)
    assert not server.calls("create pods/portforward")


async def test_not_running(remote: RemoteStreams) -> None:
    with pytest.raises(RequestError, match="isn't running"):
        async with connect(remote):
            pass
