import asyncio

import pytest

from tests.cluster.process_nodes.reaper import find_marked
from tests.process_nodes.running import (
    DEADLINE_SECONDS,
    RunningProvider,
    build_container,
    build_pod,
)
from tests.process_nodes.streams import RecordedStreams
from vkubelet.errors import RequestError
from vkubelet.interface import ExitStatus, PodRef


@pytest.fixture
async def ref(running: RunningProvider) -> PodRef:
    env = [{"name": "COLOUR", "value": "blue"}]
    container = build_container("exec sleep 600", env=env, workingDir="w")
    ref = await running.start(build_pod(container))
    await running.wait_phase(ref, "Running")
    return ref


class Shell:
    def __init__(self, running: RunningProvider, ref: PodRef) -> None:
        self._running = running
        self._ref = ref

    async def __call__(
        self, script: str, streams: RecordedStreams, *, tty: bool = False
    ) -> ExitStatus:
        return await self.run(["/bin/sh", "-c", script], streams, tty=tty)

    async def run(
        self, command: list[str], streams: RecordedStreams, *, tty: bool = False
    ) -> ExitStatus:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self._running.provider.exec(self._ref, "main", command, streams, tty=tty)


@pytest.fixture
def shell(running: RunningProvider, ref: PodRef) -> Shell:
    return Shell(running, ref)


async def test_output_errors_and_code(shell: Shell) -> None:
    streams = RecordedStreams()
    status = await shell('echo "$COLOUR"; basename "$PWD"; echo oops >&2; exit 7', streams)
    assert status == ExitStatus(7)
    assert (streams.output, streams.errors) == (b"blue\nw\n", b"oops\n")


@pytest.mark.parametrize("tty", [False, True])
async def test_a_signal_is_reported_as_a_shell_does(shell: Shell, *, tty: bool) -> None:
    assert await shell("kill -KILL $$", RecordedStreams(), tty=tty) == ExitStatus(137)


async def test_stdin_is_half_closed(shell: Shell) -> None:
    streams = RecordedStreams(stdin=True)
    for part in (b"one ", b"x" * 300_000, b""):
        streams.feed(part)
    assert await shell("wc -c; echo end", streams) == ExitStatus(0)
    assert streams.output.split() == [b"300004", b"end"]


async def test_unwanted_stdin_is_at_its_end(shell: Shell) -> None:
    streams = RecordedStreams()
    assert await shell("cat; echo end", streams) == ExitStatus(0)
    assert streams.output == b"end\n"


async def test_stdin_that_nobody_reads_is_thrown_away(shell: Shell) -> None:
    streams = RecordedStreams(stdin=True)
    for _ in range(50):
        streams.feed(b"x" * 100_000)
    assert await shell("exec <&-; echo closed; exit 3", streams) == ExitStatus(3)
    assert streams.output == b"closed\n"


@pytest.mark.parametrize("tty", [False, True])
async def test_no_output_is_lost_for_a_slow_reader(shell: Shell, *, tty: bool) -> None:
    streams = RecordedStreams()
    streams.open.clear()
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(shell("seq 1 100000; exit 4", streams, tty=tty))
        await streams.blocked.wait()
        streams.open.set()
    assert ending.result() == ExitStatus(4)
    assert streams.output.split() == [b"%d" % number for number in range(1, 100_001)]


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("no-such-program", 127, 'exec: "no-such-program": executable file not found in $PATH'),
        ("/no/such", 127, 'exec: "/no/such": stat /no/such: no such file or directory'),
        ("/etc/passwd", 126, 'exec: "/etc/passwd": permission denied'),
        ("/", 126, 'exec: "/": permission denied'),
    ],
)
async def test_what_cant_be_started(shell: Shell, command: str, code: int, message: str) -> None:
    streams = RecordedStreams()
    assert await shell.run([command], streams) == ExitStatus(code)
    assert message in streams.errors.decode()
    streams = RecordedStreams()
    assert await shell.run([command], streams, tty=True) == ExitStatus(code)
    assert message in streams.output.decode()


async def test_a_terminal(shell: Shell) -> None:
    streams = RecordedStreams(stdin=True)
    script = (
        "tty; stty -echo; trap 'stty size; sized=yes' WINCH; sleep 600 & echo ready;"
        ' until [ "$sized" ]; do sleep 0.02; done; read line; echo "got $line" >&2; exit 9'
    )
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(shell(script, streams, tty=True))
        await streams.wait_output(b"ready\r\n")
        streams.resize(132, 43)
        await streams.wait_output(b"43 132\r\n")
        streams.feed(b"hello\n")
    assert ending.result() == ExitStatus(9)
    assert streams.output.startswith(b"/dev/pts/")
    assert streams.output.endswith(b"got hello\r\n")
    assert streams.errors == b""


async def test_control_c_reaches_the_command(shell: Shell) -> None:
    streams = RecordedStreams(stdin=True)
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(shell("echo ready; exec sleep 600", streams, tty=True))
        await streams.wait_output(b"ready\r\n")
        streams.feed(b"\x03")
    assert ending.result() == ExitStatus(130)


@pytest.mark.parametrize("tty", [False, True])
async def test_cancelling_kills_the_command(
    running: RunningProvider, shell: Shell, *, tty: bool
) -> None:
    def count() -> int:
        return len(find_marked(running.provider.marker))

    streams = RecordedStreams(stdin=True)
    script = "trap '' TERM HUP; sleep 600 & setsid sleep 600 & echo ready; wait; sleep 600"
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(shell(script, streams, tty=tty))
        await streams.wait_output(b"ready")
        assert count() > 1
        ending.cancel()
    assert count() == 1


async def test_a_command_dies_with_its_container(
    running: RunningProvider, ref: PodRef, shell: Shell
) -> None:
    streams = RecordedStreams()
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(shell("echo ready; exec sleep 600", streams))
        await streams.wait_output(b"ready")
        await running.wait_gone(ref, grace_period_seconds=0)
    assert ending.result() == ExitStatus(137)


async def test_an_ended_container_takes_no_commands(running: RunningProvider) -> None:
    ref = await running.start(build_pod(build_container("exit 0"), restartPolicy="Never"))
    await running.wait_phase(ref, "Succeeded")
    for which in (ref, PodRef("shop", "web", "uid-9")):
        with pytest.raises(RequestError) as caught:
            await running.provider.exec(which, "main", ["true"], RecordedStreams(), tty=False)
        assert caught.value.code == 500
        assert str(caught.value) == 'container not found ("main")'
