import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.process_nodes.running import (
    DEADLINE_SECONDS,
    RunningProvider,
    build_container,
    build_pod,
)
from tests.process_nodes.streams import RecordedStreams
from vkubelet.errors import RequestError
from vkubelet.interface import ExitStatus, PodRef

READ = 'while read line; do echo "got $line"; done; echo over >&2; exit 3'


async def attach(
    running: RunningProvider, ref: PodRef, streams: RecordedStreams, *, tty: bool = False
) -> ExitStatus:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await running.provider.attach(ref, "main", streams, tty=tty)


async def start(running: RunningProvider, script: str, **fields: Any) -> PodRef:
    ref = await running.start(build_pod(build_container(script, **fields), restartPolicy="Never"))
    await running.wait_phase(ref, "Running")
    return ref


async def test_stdin_that_ends_with_the_first_who_attaches(running: RunningProvider) -> None:
    ref = await start(running, READ, stdin=True, stdinOnce=True)
    streams = RecordedStreams(stdin=True)
    for part in (b"one\n", b"two\n", b""):
        streams.feed(part)
    assert await attach(running, ref, streams) == ExitStatus(0)
    assert (streams.output, streams.errors) == (b"got one\ngot two\n", b"over\n")
    await running.wait_phase(ref, "Failed")
    assert b"got two" in await running.read_log(ref)


async def test_stdin_that_stays(running: RunningProvider) -> None:
    ref = await start(running, READ, stdin=True)
    for word in ("one", "two"):
        streams = RecordedStreams(stdin=True)
        async with asyncio.TaskGroup() as group:
            attached = group.create_task(attach(running, ref, streams))
            streams.feed(f"{word}\n".encode())
            await streams.wait_output(f"got {word}\n".encode())
            streams.feed(b"")
            attached.cancel()
    assert (await running.read_log(ref)).splitlines() == [b"got one", b"got two"]


async def test_output_goes_to_all_who_are_attached(running: RunningProvider) -> None:
    ref = await start(running, "read x; echo hello; read x", stdin=True)
    both = [RecordedStreams(stdin=True), RecordedStreams()]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(attach(running, ref, streams)) for streams in both]
        await asyncio.sleep(0)
        both[0].feed(b"\n")
        for streams in both:
            await streams.wait_output(b"hello\n")
        both[0].feed(b"\n")
    assert [task.result() for task in tasks] == [ExitStatus(0)] * 2


async def test_the_container_waits_for_a_slow_reader(running: RunningProvider) -> None:
    script = "read x; head -c 8000000 /dev/zero; echo done"
    ref = await start(running, script, stdin=True)
    streams = RecordedStreams(stdin=True)
    streams.open.clear()
    streams.feed(b"\n")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(attach(running, ref, streams))
        await streams.blocked.wait()
        streams.open.set()
    assert task.result() == ExitStatus(0)
    assert len(streams.output) == 8_000_005


async def test_a_terminal(running: RunningProvider) -> None:
    script = (
        "until [ \"$(stty size)\" = '43 132' ]; do sleep 0.05; done;"
        " read line; echo got $line >&2; exit 4"
    )
    ref = await start(running, script, stdin=True, stdinOnce=True, tty=True)
    streams = RecordedStreams(stdin=True)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(attach(running, ref, streams, tty=True))
        streams.resize(132, 43)
        streams.feed(b"hello\n")
    assert task.result() == ExitStatus(0)
    assert streams.output.endswith(b"got hello\r\n")
    assert streams.errors == b""


async def test_a_container_without_stdin(running: RunningProvider, tmp_path: Path) -> None:
    go = tmp_path / "go"
    ref = await start(running, f"until [ -e {go} ]; do sleep 0.05; done; cat; echo end")
    streams = RecordedStreams(stdin=True)
    streams.feed(b"nobody reads this")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(attach(running, ref, streams))
        await asyncio.sleep(0)
        go.touch()
    assert task.result() == ExitStatus(0)
    assert streams.output == b"end\n"


async def test_what_does_not_run(running: RunningProvider) -> None:
    ref = await running.start(build_pod(build_container("exit 0"), restartPolicy="Never"))
    await running.wait_phase(ref, "Succeeded")
    with pytest.raises(RequestError) as caught:
        await attach(running, ref, RecordedStreams())
    assert str(caught.value) == 'container not found ("main")'
