"""A command in a remote container, over a WebSocket to the remote API server."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import aiohttp

from provider.streams.failures import RemotePod
from provider.streams.output import OutputBuffer
from vkubelet.interface import CommandStreams, ExitStatus
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError
from vkubelet.kube.objects import PODS
from vkubelet.streaming.channels import (
    PROTOCOL_V4,
    PROTOCOL_V5,
    Channel,
    decode_message,
    encode_close,
    encode_message,
    parse_status,
    serialize_resize,
)

logger = logging.getLogger(__name__)

PROTOCOLS: Final = (PROTOCOL_V5, PROTOCOL_V4)
"""What is offered, best first; v4 can't tell the command that stdin has ended."""

MAX_MESSAGE_BYTES: Final = 32 * 1024
"""Data of one message; servers read into buffers of that size."""

MAX_STATUS_BYTES: Final = 64 * 1024
"""Cap of the exit status; one takes some hundred bytes."""

DRAIN_SECONDS: Final = 10.0
"""How long a silent server is awaited to close after the exit status: output may be on its way."""


async def relay_exec(
    client: KubeClient,
    pod: RemotePod,
    container: str,
    command: Sequence[str],
    streams: CommandStreams,
    *,
    tty: bool,
) -> ExitStatus:
    """
    Run a command in a remote container until it ends; see `Provider.exec`.

    Cancelling closes the WebSocket, which ends the far side. If it breaks, the command's end is
    unknown: it may have run, so it's never tried again.
    """
    path = PODS.path(pod.key.namespace, pod.key.name, "exec")
    query = build_exec_query(container, command, streams, tty=tty)
    started = False
    try:
        async with client.connect_websocket(path, query, protocols=PROTOCOLS) as websocket:
            started = True
            status = await _RemoteCommand(websocket, streams, tty=tty).run()
    except KubeError as error:
        if not started:
            raise pod.build_error("pods/exec", error) from error
        logger.warning("%s: exec broke off: %s", pod.key, error)
        return ExitStatus(None, "the connection to the remote cluster broke")
    if status.code is None:
        logger.info("%s: exec in %s: no exit code: %s", pod.key, container, status.message)
    return ExitStatus(status.code, pod.rewrite(status.message))


def build_exec_query(
    container: str, command: Sequence[str], streams: CommandStreams, *, tty: bool
) -> list[tuple[str, str]]:
    """
    Build the query of `pods/NAME/exec`.

    A terminal has no stderr of its own, and asking for both is an error.
    """
    flags = {
        "stdin": streams.stdin,
        "stdout": streams.stdout,
        "stderr": streams.stderr and not tty,
        "tty": tty,
    }
    return [
        ("container", container),
        *(("command", word) for word in command),
        *((name, "true") for name, is_set in flags.items() if is_set),
    ]


class _RemoteCommand:
    """One command over one WebSocket: reads until its end, while helpers send stdin and sizes."""

    def __init__(
        self, websocket: aiohttp.ClientWebSocketResponse, streams: CommandStreams, *, tty: bool
    ) -> None:
        self._websocket = websocket
        self._streams = streams
        self._tty = tty
        self._output = OutputBuffer(streams)
        self._status = bytearray()
        self._ended = False
        self._ending = "it fell silent"

    async def run(self) -> ExitStatus:
        """Return when the command has ended and all its output is with the caller."""
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(self._output.run(), name="exec output")
            helpers = []
            if self._streams.stdin:
                helpers.append(group.create_task(self._send_stdin(), name="exec stdin"))
            if self._tty:
                helpers.append(group.create_task(self._send_sizes(), name="exec terminal size"))
            await self._receive()
            self._output.close()
            await writer
            for helper in helpers:
                helper.cancel()
        if not self._status:
            return ExitStatus(None, f"no exit status from the remote cluster: {self._ending}")
        status = parse_status(bytes(self._status))
        return ExitStatus(status.code, status.message)

    async def _receive(self) -> None:
        """Read until the server closes; how the command ended is known by the status alone."""
        while True:
            try:
                async with asyncio.timeout(DRAIN_SECONDS if self._status else None):
                    message = await self._websocket.receive()
            except TimeoutError:
                return
            match message.type:
                case aiohttp.WSMsgType.BINARY:
                    await self._handle(message.data)
                case aiohttp.WSMsgType.CLOSE:
                    self._ending = f"closed with {message.data} {message.extra or ''}".rstrip()
                    return
                case aiohttp.WSMsgType.TEXT:
                    pass  # Only base64 protocols, which aren't offered, use text.
                case _:
                    self._ending = "the connection broke"
                    return

    async def _handle(self, message: bytes) -> None:
        match decode_message(message):
            case (Channel.STDOUT | Channel.STDERR) as channel, data if data:
                await self._output.put(channel, data)
            case Channel.ERROR, data:
                self._status += data[: MAX_STATUS_BYTES - len(self._status)]
                self._ended = self._ended or bool(data)
            case _:
                pass  # Empty messages say "connected"; other channels aren't the server's to use.

    async def _send_stdin(self) -> None:
        """
        Send stdin and its end; cancelled when the command has ended.

        What still comes after the command's end is read and thrown away, so that the caller doesn't
        get stuck.
        """
        while data := await self._streams.read_stdin():
            view = memoryview(data)
            for start in range(0, len(data), MAX_MESSAGE_BYTES):
                chunk = bytes(view[start : start + MAX_MESSAGE_BYTES])
                await self._send(encode_message(Channel.STDIN, chunk))
        if self._websocket.protocol == PROTOCOL_V5:
            await self._send(encode_close(Channel.STDIN))
        else:
            logger.debug("stdin has ended, but %s can't say so", self._websocket.protocol)

    async def _send_sizes(self) -> None:
        while True:
            size = await self._streams.wait_resize()
            resize = serialize_resize(size.width, size.height)
            await self._send(encode_message(Channel.RESIZE, resize))

    async def _send(self, message: bytes) -> None:
        if self._ended or self._websocket.closed:
            return
        try:
            await self._websocket.send_bytes(message)
        except (aiohttp.ClientError, OSError) as error:
            # Reading finds out how it ended: often a command that closed before its stdin did.
            logger.debug("the rest of stdin isn't sent: %s", error)
            self._ended = True
