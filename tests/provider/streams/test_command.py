"""A command over a link that a test plays."""

import asyncio
from collections.abc import Sequence

import pytest

from provider.streams.command import DRAIN_SECONDS, RemoteCommand
from tests.provider.streams.caller import Caller
from vkubelet.interface import ExitStatus, TerminalSize
from vkubelet.streaming.channels import Channel, CommandStatus

pytestmark = pytest.mark.virtual_time


class Link:
    """Gives what the test puts; keeps what is sent."""

    def __init__(self) -> None:
        self.status: CommandStatus | None = None
        self.ending = "it ended"
        self.received: asyncio.Queue[Sequence[tuple[Channel, bytes]] | None] = asyncio.Queue()
        self.sent: list[object] = []
        self.broken = False

    async def receive(self) -> Sequence[tuple[Channel, bytes]] | None:
        return await self.received.get()

    async def send_stdin(self, data: bytes) -> None:
        self._send(data)

    async def end_stdin(self) -> None:
        self._send(None)

    async def send_size(self, size: TerminalSize) -> None:
        self._send(size)

    def _send(self, what: object) -> None:
        if self.broken:
            raise ConnectionResetError("broken")
        self.sent.append(what)


async def finish(link: Link, code: int = 0) -> None:
    await asyncio.sleep(1)
    link.status = CommandStatus(code)
    link.received.put_nowait(None)


async def run(link: Link, caller: Caller, *, tty: bool = False, code: int = 0) -> ExitStatus:
    async with asyncio.TaskGroup() as group:
        group.create_task(finish(link, code))
        return await RemoteCommand(link, caller, tty=tty).run()
    raise AssertionError


async def test_streams() -> None:
    link, caller = Link(), Caller(stdin=True)
    link.received.put_nowait([(Channel.STDOUT, b"out"), (Channel.STDERR, b"err")])
    caller.feed(b"in", b"")
    assert await run(link, caller, code=7) == ExitStatus(7)
    assert (caller.output, caller.errors) == (b"out", b"err")
    assert link.sent == [b"in", None]


async def test_sizes_only_with_a_terminal() -> None:
    for tty in (False, True):
        link, caller = Link(), Caller()
        caller.sizes.put_nowait(TerminalSize(80, 24))
        await run(link, caller, tty=tty)
        assert link.sent == ([TerminalSize(80, 24)] if tty else [])


async def test_sizes_go_before_what_was_typed_ahead() -> None:
    link, caller = Link(), Caller(stdin=True)
    caller.feed(b"typed ahead")
    for width in (81, 80):
        caller.sizes.put_nowait(TerminalSize(width, 24))
    await run(link, caller, tty=True)
    assert link.sent == [TerminalSize(81, 24), TerminalSize(80, 24), b"typed ahead"]


async def test_no_status() -> None:
    link = Link()
    link.received.put_nowait(None)
    status = await RemoteCommand(link, Caller(), tty=False).run()
    assert status == ExitStatus(None, "no exit status from the remote cluster: it ended")


async def test_silence_after_the_status() -> None:
    link = Link()
    link.status = CommandStatus(3)
    start = asyncio.get_running_loop().time()
    assert await RemoteCommand(link, Caller(), tty=False).run() == ExitStatus(3)
    assert asyncio.get_running_loop().time() - start == pytest.approx(DRAIN_SECONDS, abs=0.1)


async def test_stdin_that_nobody_takes_is_thrown_away() -> None:
    link, caller = Link(), Caller(stdin=True)
    link.broken = True
    caller.feed(b"one", b"two", b"three")
    assert await run(link, caller, tty=True) == ExitStatus(0)
    assert caller.stdin_reads == 4
    assert link.sent == []
