"""A command in a remote container, over whatever carries its streams."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from provider.streams.output import OutputBuffer
from vkubelet.interface import CommandStreams, ExitStatus, TerminalSize
from vkubelet.streaming.channels import Channel, CommandStatus

logger = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 10.0
"""How long a silent server is awaited to close after the exit status: output may be on its way."""


class CommandLink(Protocol):
    """A connection that carries one command's streams."""

    @property
    def status(self) -> CommandStatus | None:
        """The exit status once it has come; output may still follow."""

    @property
    def ending(self) -> str:
        """How it ended, for a message."""

    async def receive(self) -> Sequence[tuple[Channel, bytes]] | None:
        """Return output as it comes, by STDOUT or STDERR; None: nothing more will."""

    async def send_stdin(self, data: bytes) -> None:
        """
        Send stdin; waits while the far side is slow.

        Raises:
            ConnectionError: If it takes no more.
        """

    async def end_stdin(self) -> None:
        """Say that stdin has ended; see `send_stdin`."""

    async def send_size(self, size: TerminalSize) -> None:
        """Tell the terminal's size; see `send_stdin`."""


class RemoteCommand:
    """One command over one link: reads until its end, while helpers send stdin and sizes."""

    def __init__(self, link: CommandLink, streams: CommandStreams, *, tty: bool) -> None:
        self._link = link
        self._streams = streams
        self._tty = tty
        self._output = OutputBuffer(streams)
        self._broken = False

    async def run(self) -> ExitStatus:
        """Return when the command has ended and all its output is with the caller."""
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(self._output.run(), name="command output")
            helpers = []
            if self._tty:  # before stdin: a kubelet loses the end of a command that it resizes then
                helpers.append(group.create_task(self._send_sizes(), name="command terminal size"))
            if self._streams.stdin:
                helpers.append(group.create_task(self._send_stdin(), name="command stdin"))
            ending = await self._receive()
            self._output.close()
            await writer
            for helper in helpers:
                helper.cancel()
        status = self._link.status
        if status is None:
            return ExitStatus(None, f"no exit status from the remote cluster: {ending}")
        return ExitStatus(status.code, status.message)

    @property
    def _ended(self) -> bool:
        return self._broken or self._link.status is not None

    async def _receive(self) -> str:
        """Read until the far side closes; how the command ended is known by the status alone."""
        while True:
            try:
                async with asyncio.timeout(DRAIN_SECONDS if self._link.status else None):
                    received = await self._link.receive()
            except TimeoutError:
                return "it fell silent"
            if received is None:
                return self._link.ending
            for channel, data in received:
                await self._output.put(channel, data)

    async def _send_stdin(self) -> None:
        """
        Send stdin and its end; cancelled when the command has ended.

        What still comes after the command's end is read and thrown away, so that the caller doesn't
        get stuck.
        """
        try:
            while data := await self._streams.read_stdin():
                if not self._ended:
                    await self._link.send_stdin(data)
            if not self._ended:
                await self._link.end_stdin()
        except ConnectionError as error:
            # Reading finds out how it ended: often a command that closed before its stdin did.
            logger.debug("the rest of stdin isn't sent: %s", error)
            self._broken = True
            while await self._streams.read_stdin():
                pass

    async def _send_sizes(self) -> None:
        while not self._ended:
            size = await self._streams.wait_resize()
            try:
                await self._link.send_size(size)
            except ConnectionError as error:
                logger.debug("the terminal's size isn't sent: %s", error)
                self._broken = True
