"""A connection to a pod's port over a WebSocket of its own, as old servers have it."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from provider.streams.failures import RemotePod
from vkubelet.errors import RequestError
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import PODS
from vkubelet.streaming.channels import PROTOCOL_V4

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 32 * 1024
"""Data of one message; servers read into buffers of that size."""

_DATA = 0
_ERROR = 1
_PORT_BYTES = 2


class LegacyForward:
    """
    A connection to a port; see `ByteStream`. The protocol has no half-close.

    Each message is a channel byte and data: 0 the pod's bytes, 1 an error; the first of each
    channel is the port.
    """

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse, pod: RemotePod) -> None:
        self._websocket = websocket
        self._pod = pod
        self._announced: set[int] = set()
        self._has_read = False

    async def read(self) -> bytes:
        """See `ByteStream.read`; RequestError if nobody listens."""
        while True:
            message = await self._websocket.receive()
            match message.type:
                case aiohttp.WSMsgType.BINARY if message.data:
                    if data := self._decode(message.data[0], bytes(message.data[1:])):
                        self._has_read = True
                        return data
                case aiohttp.WSMsgType.BINARY | aiohttp.WSMsgType.TEXT:
                    pass  # Empty, or of a protocol that wasn't offered.
                case aiohttp.WSMsgType.CLOSE | aiohttp.WSMsgType.CLOSED:
                    return b""
                case _:
                    raise ConnectionResetError("the connection to the remote cluster broke")

    def _decode(self, channel: int, data: bytes) -> bytes:
        if channel not in self._announced:
            self._announced.add(channel)
            data = data[_PORT_BYTES:]
        if channel == _ERROR and data:
            text = self._pod.hide(data.decode("utf-8", "replace").strip())
            raise ConnectionResetError(text) if self._has_read else RequestError(500, text)
        return data if channel == _DATA else b""

    async def write(self, data: bytes) -> None:
        """See `ByteStream.write`."""
        view = memoryview(data)
        for start in range(0, len(data), MAX_MESSAGE_BYTES):
            if self._websocket.closed:
                raise ConnectionResetError("the connection has ended")
            try:
                await self._websocket.send_bytes(
                    bytes((_DATA,)) + view[start : start + MAX_MESSAGE_BYTES]
                )
            except aiohttp.ClientError as error:
                raise ConnectionResetError(str(error)) from error

    async def write_eof(self) -> None:
        """Say nothing: the pod sees the end when the connection is closed."""
        logger.debug("%s: port-forward: %s has no half-close", self._pod.key, PROTOCOL_V4)


@asynccontextmanager
async def open_legacy_forward(
    client: KubeClient, pod: RemotePod, port: int
) -> AsyncIterator[LegacyForward]:
    """
    Connect to a port; leaving the context closes the connection.

    Raises:
        KubeError: The server's Status if it refuses.
    """
    path = PODS.path(pod.key.namespace, pod.key.name, "portforward")
    query = [("ports", str(port))]
    async with client.connect_websocket(path, query, protocols=[PROTOCOL_V4]) as websocket:
        yield LegacyForward(websocket, pod)
