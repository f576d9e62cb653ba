"""A command's streams over SPDY; whole commands are in `test_exec`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from provider.streams.spdy_link import SpdyLink, open_spdy_link
from tests.fakes.api_server import FakeApiServer
from tests.provider.streams.caller import Caller
from tests.provider.streams.far_side import PlayCommand, Turn, over_spdy, play_command
from vkubelet.kube.errors import UpgradeError
from vkubelet.streaming.channels import Channel, CommandStatus
from vkubelet.streaming.remotecommand import (
    Phase,
    RemoteCommandServer,
    StdinReceived,
    StreamOptions,
    StreamType,
)

PATH = "/api/v1/namespaces/a/pods/p/exec"


@asynccontextmanager
async def open_link(
    play: PlayCommand, *, stdin: bool = False, protocol: str = "v4.channel.k8s.io"
) -> AsyncIterator[SpdyLink]:
    options = StreamOptions(stdin=stdin, stdout=True)
    async with FakeApiServer() as server, server.client("remote") as client:
        server.handle("create pods/exec", over_spdy(play_command(options, play), protocol))
        caller = Caller(stdin=stdin, stderr=False)
        async with open_spdy_link(client, PATH, [], caller, tty=False) as link:
            yield link


async def test_output_and_status() -> None:
    async def play(core: RemoteCommandServer, turn: Turn) -> None:
        while core.phase is not Phase.RUNNING:
            await turn()
        core.send_output(StreamType.STDOUT, b"out")
        core.send_status(CommandStatus(3))

    async with open_link(play) as link:
        received: list[tuple[Channel, bytes]] = []
        while (part := await link.receive()) is not None:
            received += part
        assert received == [(Channel.STDOUT, b"out")]
        assert link.status == CommandStatus(3)
        assert link.ending == "the command ended"
        await link.send_stdin(b"too late")
        await link.end_stdin()


async def test_stdin_waits_for_the_streams() -> None:
    got: list[bytes] = []

    async def play(core: RemoteCommandServer, turn: Turn) -> None:
        while not core.stdin_closed:
            got.extend(event.data for event in await turn() if isinstance(event, StdinReceived))
        core.send_status(CommandStatus(0))

    async with open_link(play, stdin=True) as link, asyncio.TaskGroup() as group:

        async def send() -> None:
            await link.send_stdin(b"in")
            await link.end_stdin()

        group.create_task(send())
        while await link.receive() is not None:
            pass
    assert b"".join(got) == b"in"


async def test_server_without_a_protocol() -> None:
    async def play(core: RemoteCommandServer, turn: Turn) -> None:
        await turn()

    with pytest.raises(UpgradeError, match="speaks none of v4"):
        async with open_link(play, protocol="v9"):
            pass
