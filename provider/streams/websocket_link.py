"""A command's streams over a WebSocket: a channel byte and data a message."""

import logging
from collections.abc import Sequence
from typing import Final

import aiohttp

from vkubelet.interface import TerminalSize
from vkubelet.streaming.channels import (
    PROTOCOL_V5,
    Channel,
    CommandStatus,
    decode_message,
    encode_close,
    encode_message,
    parse_status,
    serialize_resize,
)

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 32 * 1024
"""Data of one message; servers read into buffers of that size."""


MAX_STATUS_BYTES: Final = 64 * 1024
"""Cap of the exit status; one takes some hundred bytes."""


class WebSocketLink:
    """
    A command over a WebSocket (v5 or v4) that the caller opens and closes.

    Attributes:
        ending: How it ended, for a message.
    """

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self._websocket = websocket
        self._status = bytearray()
        self.ending = "it fell silent"

    @property
    def status(self) -> CommandStatus | None:
        """See `CommandLink.status`; a status in several messages is read when all have come."""
        return parse_status(bytes(self._status)) if self._status else None

    async def receive(self) -> Sequence[tuple[Channel, bytes]] | None:
        """See `CommandLink.receive`."""
        message = await self._websocket.receive()
        match message.type:
            case aiohttp.WSMsgType.BINARY:
                return self._decode(message.data)
            case aiohttp.WSMsgType.TEXT:
                return ()  # Only base64 protocols, which aren't offered, use text.
            case aiohttp.WSMsgType.CLOSE:
                self.ending = f"closed with {message.data} {message.extra or ''}".rstrip()
            case _:
                self.ending = "the connection broke"
                cause = message.data or self._websocket.exception()
                logger.info("a command's WebSocket broke: %s %r", message.type.name, cause)
        return None

    def _decode(self, message: bytes) -> Sequence[tuple[Channel, bytes]]:
        match decode_message(message):
            case (Channel.STDOUT | Channel.STDERR) as channel, data if data:
                return ((channel, data),)
            case Channel.ERROR, data:
                self._status += data[: MAX_STATUS_BYTES - len(self._status)]
                return ()
            case _:
                return ()  # Empty messages say "connected"; other channels aren't the server's.

    async def send_stdin(self, data: bytes) -> None:
        """See `CommandLink.send_stdin`."""
        view = memoryview(data)
        for start in range(0, len(data), MAX_MESSAGE_BYTES):
            chunk = bytes(view[start : start + MAX_MESSAGE_BYTES])
            await self._send(encode_message(Channel.STDIN, chunk))

    async def end_stdin(self) -> None:
        """Say that stdin has ended: v4 can't, so nothing is said."""
        if self._websocket.protocol == PROTOCOL_V5:
            await self._send(encode_close(Channel.STDIN))
        else:
            logger.debug("stdin has ended, but %s can't say so", self._websocket.protocol)

    async def send_size(self, size: TerminalSize) -> None:
        """See `CommandLink.send_size`."""
        resize = serialize_resize(size.width, size.height)
        await self._send(encode_message(Channel.RESIZE, resize))

    async def _send(self, message: bytes) -> None:
        if self._websocket.closed:
            raise ConnectionResetError("the WebSocket is closed")
        try:
            await self._websocket.send_bytes(message)
        except aiohttp.ClientError as error:
            raise ConnectionResetError(str(error)) from error
