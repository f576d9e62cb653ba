import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.vkubelet.server.forward_client import connect_forward
from tests.vkubelet.server.harness import Harness, serve
from tests.vkubelet.server.pod_port import Pod, echo
from vkubelet.errors import RequestError
from vkubelet.interface import PodRef

pytestmark = pytest.mark.virtual_time

REF = PodRef("ns", "pod", "uid-1")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path) as harness:
        yield harness


@pytest.fixture
def pod(node: Harness) -> Pod:
    pod = Pod()
    node.provider.dial = pod.dial
    return pod


async def wait_streams_gone(node: Harness, seconds: float = 3) -> None:
    async with asyncio.timeout(seconds):
        while len(node.server.streams):
            await asyncio.sleep(0.1)


async def test_both_ways_and_half_closes(node: Harness, pod: Pod) -> None:
    async with connect_forward(node.server.port, node.context()) as client:
        forward = await client.open(8080)
        client.send(forward, b"question")
        client.send_eof(forward)
        stream = await pod.wait_stream()
        assert await stream.wait_received(8) == b"question"
        await stream.ended.wait()
        stream.say(b"answer")
        assert await client.read_output(forward, 6) == b"answer"
        assert forward not in client.ended
        stream.say(b"")
        await client.read_end(forward)
        await stream.closed.wait()
    assert node.provider.forward_requests == [(REF, 8080)]


async def test_the_pod_may_end_first(node: Harness, pod: Pod) -> None:
    async with connect_forward(node.server.port, node.context()) as client:
        forward = await client.open(8080)
        stream = await pod.wait_stream()
        stream.say(b"bye")
        stream.say(b"")
        assert await client.read_end(forward) == b"bye"
        client.send(forward, b"still here")
        assert await stream.wait_received(10) == b"still here"
        assert not stream.closed.is_set()
        client.reset(forward)  # as kubectl does
        await stream.closed.wait()
        assert not client.failures


async def test_a_refused_port_is_told_and_others_go_on(node: Harness, pod: Pod) -> None:
    pod.closed_ports.add(81)
    async with connect_forward(node.server.port, node.context()) as client:
        good = await client.open(80)
        bad = await client.open(81)
        assert await client.read_failure(bad) == (
            "error forwarding port 81 to pod pod, uid uid-1: dial port 81: connection refused"
        )
        client.send(good, b"x")
        assert await (await pod.wait_stream()).wait_received(1) == b"x"


@pytest.mark.parametrize(
    ("failure", "answered", "message"),
    [
        (ConnectionResetError(), False, "the connection was reset"),
        (ConnectionResetError(), True, "the connection was reset"),
        (RequestError(500, "late refusal"), False, "late refusal"),
        (RequestError(500, "late refusal"), True, "the connection was reset"),
        (ValueError("a bug"), False, "internal error"),
    ],
)
async def test_only_what_never_came_about_is_told(
    node: Harness, pod: Pod, failure: Exception, answered: bool, message: str
) -> None:
    async with connect_forward(node.server.port, node.context()) as client:
        forward = await client.open(80)
        other = await client.open(80)
        stream = await pod.wait_stream()
        if answered:
            stream.say(b"hello")
            await client.read_output(forward, 5)
        stream.say(failure)
        assert message in await client.read_failure(forward)
        await stream.closed.wait()
        (await pod.wait_stream(1)).say(b"alive")
        assert await client.read_output(other, 5) == b"alive"


async def test_a_pod_that_takes_no_more_still_speaks(node: Harness, pod: Pod) -> None:
    async with connect_forward(node.server.port, node.context()) as client:
        forward = await client.open(80)
        stream = await pod.wait_stream()
        stream.write_failure = BrokenPipeError()
        client.send(forward, bytes(100_000))
        stream.say(b"go away")
        assert await client.read_output(forward, 7) == b"go away"
        client.send(forward, bytes(100_000))
        stream.say(b"")
        await client.read_end(forward)
        await stream.closed.wait()


async def test_a_reset_ends_one_connection_alone(node: Harness, pod: Pod) -> None:
    async with connect_forward(node.server.port, node.context()) as client:
        one, two = await client.open(80), await client.open(81)
        first, second = await pod.wait_stream(0), await pod.wait_stream(1)
        client.reset(one)
        await first.closed.wait()
        client.send(two, b"go on")
        assert await second.wait_received(5) == b"go on"
        assert not second.closed.is_set()


async def test_a_reset_before_the_pod_is_reached(node: Harness) -> None:
    class Unreachable(Pod):
        def __init__(self) -> None:
            super().__init__()
            self.cancelled = asyncio.Event()

        async def wait(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()

    pod = Unreachable()

    class Dial:
        async def __aenter__(self) -> None:
            await pod.wait()

        async def __aexit__(self, *_: object) -> None:
            raise AssertionError

    node.provider.dial = lambda _port: Dial()  # type: ignore[assignment,return-value]  # never entered
    async with connect_forward(node.server.port, node.context()) as client:
        forward = await client.open(80)
        client.send(forward, b"early")
        await asyncio.sleep(0.1)
        client.reset(forward)
        await pod.cancelled.wait()


async def test_many_at_once(node: Harness) -> None:
    node.provider.dial = echo
    data = bytes(range(256)) * 100
    async with connect_forward(node.server.port, node.context()) as client:
        forwards = [await client.open(80) for _ in range(120)]
        for forward in forwards:
            client.send(forward, data + bytes([forward]))
            client.send_eof(forward)
        for forward in forwards:
            assert await client.read_end(forward) == data + bytes([forward])
        assert not client.failures


async def test_many_short_ones_leave_nothing(node: Harness) -> None:
    node.provider.dial = echo
    async with connect_forward(node.server.port, node.context()) as client:
        tasks = len(asyncio.all_tasks())
        for _ in range(300):
            forward = await client.open(80)
            client.send(forward, b"x")
            client.send_eof(forward)
            assert await client.read_end(forward) == b"x"
        await client.open(80)
        assert len(asyncio.all_tasks()) <= tasks + 6
        assert len(client.core.forward_ids) <= 2


async def test_no_output_is_lost_to_a_slow_reader_and_none_hogs(node: Harness, pod: Pod) -> None:
    output = bytes(range(256)) * 4096  # 1 MiB at once, 16 times
    async with connect_forward(node.server.port, node.context()) as client:
        big = await client.open(80)
        small = await client.open(81)
        stream, other = await pod.wait_stream(0), await pod.wait_stream(1)
        for _ in range(16):
            stream.say(output)
        stream.say(b"")
        await asyncio.sleep(1)
        other.say(b"urgent")
        await client.read_output(small, 6)
        assert len(client.output[big]) < 16 << 20
        assert await client.read_end(big) == output * 16


async def test_a_pod_that_does_not_read_is_bounded(node: Harness, pod: Pod) -> None:
    sent = bytes(range(256)) * 65536  # 16 MiB
    async with connect_forward(node.server.port, node.context()) as client:
        forward = await client.open(80)
        stream = await pod.wait_stream()
        stream.gate.clear()

        async def send() -> None:
            for start in range(0, len(sent), 32768):
                client.send(forward, sent[start : start + 32768])
                await client.writer.drain()
            client.send_eof(forward)

        async with asyncio.TaskGroup() as group:
            sending = group.create_task(send())
            await asyncio.sleep(5)
            assert not sending.done()  # back-pressure reached the client
            stream.gate.set()
        assert await stream.wait_received(len(sent)) == sent
        await stream.ended.wait()


async def test_a_client_that_leaves_while_the_pod_does_not_read(node: Harness, pod: Pod) -> None:
    async with connect_forward(node.server.port, node.context()) as client:
        forward = await client.open(80)
        stream = await pod.wait_stream()
        stream.gate.clear()
        client.send(forward, bytes(12 << 20))
        await asyncio.sleep(1)
        client.writer.transport.abort()
        async with asyncio.timeout(5):
            await stream.closed.wait()


@pytest.mark.parametrize("way", ["close", "abort", "go_away", "rubbish"])
async def test_a_client_that_leaves_closes_all(node: Harness, pod: Pod, way: str) -> None:
    async with connect_forward(node.server.port, node.context()) as client:
        for _ in range(3):
            await client.open(80)
        await pod.wait_stream(2)
        match way:
            case "close":
                client.writer.close()
            case "abort":
                client.writer.transport.abort()
            case "go_away":
                client.core.close()
                client.flush()
            case _:
                client.writer.write(b"\x80\x63rubbish")
        async with asyncio.timeout(3):
            for stream in pod.streams:
                await stream.closed.wait()
        await wait_streams_gone(node)
    assert pod.open_count == 0


async def test_half_a_pair_is_given_up(node: Harness, pod: Pod) -> None:
    loop = asyncio.get_running_loop()
    async with connect_forward(node.server.port, node.context()) as client:
        connection = client.core._connection
        connection.open_stream([("streamtype", "error"), ("port", "80"), ("requestid", "7")])
        start = loop.time()
        client.flush()
        while client.core._connection.is_open(1):
            data = await client.reader.read(65536)
            connection.receive_data(data)
            if connection.is_writable(1):
                connection.send_data(1, b"", fin=True)
                client.flush()
        assert 29 < loop.time() - start < 31
    assert not node.provider.forward_requests


async def test_idle_forwards_live_on_pings_but_not_for_ever(node: Harness, pod: Pod) -> None:
    loop = asyncio.get_running_loop()
    async with connect_forward(node.server.port, node.context()) as client:
        forward = await client.open(80)
        start = loop.time()

        async def ping() -> None:
            while True:
                client.core.send_ping()
                client.flush()
                await asyncio.sleep(600)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(ping())
            assert await client.read_failure(forward) == "no data passed for 14400 seconds"
            task.cancel()
        assert 14390 < loop.time() - start < 14410
        await client.read_eof()


async def test_a_server_that_stops_tells_its_clients(node: Harness, pod: Pod) -> None:
    async with connect_forward(node.server.port, node.context()) as client:
        forward = await client.open(80)
        await pod.wait_stream()
        node.server.streams.interrupt_all("the node is shutting down")
        assert await client.read_failure(forward) == "the node is shutting down"
        await client.read_eof()
        await wait_streams_gone(node)
    assert pod.open_count == 0
