"""The I/O side of a port-forward: connections to a pod's ports on one upgraded connection."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from vkubelet.errors import VkubeletError
from vkubelet.interface import ByteStream, PodRef
from vkubelet.server.errors import StreamInterruptedError
from vkubelet.server.policy import ServerPolicy
from vkubelet.server.upgraded import UpgradedConnection
from vkubelet.streaming.portforward import (
    Disconnected,
    Event,
    ForwardAnnounced,
    ForwardEnded,
    ForwardOpened,
    ForwardReceived,
    ForwardReset,
    ForwardServer,
)
from vkubelet.streaming.spdy.frames import MAX_DATA_FRAME_BYTES

logger = logging.getLogger(__name__)

MAX_BUFFERED_BYTES = 4 * 1024 * 1024
"""
What pods haven't taken, of all forwards of a connection together.

Beyond it nothing is read, as there are no windows: one pod that doesn't read holds up the others.
"""

MAX_READ_BYTES = 64 * 1024
"""How much a pod gets at once."""


class _Forward:
    """
    One forward, and what the client has sent on it.

    Attributes:
        id: The core's.
        port: The pod's; 0 as long as it's only announced.
        answered: Whether the pod has sent anything.
        ended: Whether the client has ended its direction.
        unwanted: Whether the pod takes no more.
        task: What serves it, once that has begun.
        timer: Ends the wait for its second stream.
    """

    def __init__(self, forward_id: int, timer: asyncio.TimerHandle) -> None:
        self.id = forward_id
        self.port = 0
        self.buffer = bytearray()
        self.moved = asyncio.Event()
        self.answered = False
        self.ended = False
        self.unwanted = False
        self.task: asyncio.Task[None] | None = None
        self.timer = timer


class ForwardSession(UpgradedConnection[Event]):
    """The forwards of one client to one pod."""

    def __init__(self, core: ForwardServer, ref: PodRef, policy: ServerPolicy) -> None:
        super().__init__(core, policy)
        self._core = core
        self._ref = ref
        self._forwards: dict[int, _Forward] = {}
        self._opened: deque[_Forward] = deque()
        self._changed = asyncio.Event()
        self._buffered_bytes = 0
        self._turn = asyncio.Lock()

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case ForwardAnnounced():
                    self._announce(event.forward_id)
                case ForwardOpened():
                    self._open(event.forward_id, event.port)
                case ForwardReceived():
                    self._take_data(event.forward_id, event.data)
                case ForwardEnded():
                    forward = self._forwards[event.forward_id]
                    forward.ended = True
                    forward.moved.set()
                case ForwardReset():
                    self._drop(event.forward_id)
                case Disconnected():
                    self.interruption.interrupt(event.reason)

    def _announce(self, forward_id: int) -> None:
        timer = self._loop.call_later(
            self._policy.stream_creation_seconds, self._give_up, forward_id
        )
        self._forwards[forward_id] = _Forward(forward_id, timer)

    def _give_up(self, forward_id: int) -> None:
        logger.info("%s: a forward's second stream didn't come in time", self._ref)
        self._core.give_up(forward_id)
        self._drop(forward_id)
        self._flush()

    def _open(self, forward_id: int, port: int) -> None:
        self._note_data()
        forward = self._forwards[forward_id]
        forward.timer.cancel()
        forward.port = port
        self._opened.append(forward)
        self._changed.set()

    def _take_data(self, forward_id: int, data: bytes) -> None:
        self._note_data()
        forward = self._forwards[forward_id]
        if forward.unwanted:
            return
        forward.buffer += data
        forward.moved.set()
        self._buffered_bytes += len(data)
        if self._buffered_bytes > MAX_BUFFERED_BYTES:
            self._pause_reading()

    def _drop(self, forward_id: int) -> None:
        """Forget a forward, and end what serves it."""
        forward = self._forwards.pop(forward_id, None)
        if forward is None:
            return
        forward.timer.cancel()
        self._discard(forward)
        if forward.task is not None:
            forward.task.cancel()
        elif forward in self._opened:
            self._opened.remove(forward)

    def _discard(self, forward: _Forward) -> None:
        """Throw away what a pod won't take (any more)."""
        forward.unwanted = True
        self._count_taken(len(forward.buffer))
        forward.buffer.clear()

    def _count_taken(self, size: int) -> None:
        self._buffered_bytes -= size
        if self._buffered_bytes <= MAX_BUFFERED_BYTES // 2:
            self._resume_reading()

    # The session.

    async def run(self, dial: Callable[[int], AbstractAsyncContextManager[ByteStream]]) -> None:
        """
        Serve forwards until the client leaves; returns when the connection is closed.

        Args:
            dial: Connects to a port of the pod.
        """
        reason = "the node is shutting down"
        try:
            with self._watching_idleness():
                async with self.interruption.guard():
                    await self._serve(dial)
        except StreamInterruptedError as error:
            reason = error.reason
        finally:
            for forward in self._forwards.values():
                forward.timer.cancel()
            self._core.close(reason)
            self._flush()
        await self._linger()

    async def _serve(self, dial: Callable[[int], AbstractAsyncContextManager[ByteStream]]) -> None:
        async with asyncio.TaskGroup() as group:
            while not self._core.closed:
                while self._opened:
                    forward = self._opened.popleft()
                    name = f"forward {forward.id} to port {forward.port}"
                    forward.task = group.create_task(self._forward(forward, dial), name=name)
                self._changed.clear()
                await self._changed.wait()

    async def _forward(
        self,
        forward: _Forward,
        dial: Callable[[int], AbstractAsyncContextManager[ByteStream]],
    ) -> None:
        """Serve one forward; whatever happens to it, the others go on."""
        failure: Exception | None
        try:
            async with dial(forward.port) as stream:
                failure = await self._relay(forward, stream)
        except Exception as error:  # noqa: BLE001 - told below
            failure = error
        if failure is None:
            self._core.finish(forward.id)
        else:
            self._core.abort(forward.id, self._describe(forward, failure))
        forward.task = None  # it ends here, and needn't be cancelled
        self._drop(forward.id)
        self._changed.set()
        self._flush()

    def _describe(self, forward: _Forward, failure: Exception) -> str:
        """
        Tell the user why a connection never came about; kubectl ends at any text.

        So a connection that breaks later gets none.
        """
        where = f"port {forward.port} to pod {self._ref.name}, uid {self._ref.uid}"
        if isinstance(failure, VkubeletError):
            logger.info("%s: %s: %s", self._ref, where, failure)
            text = str(failure)
        elif isinstance(failure, OSError):
            logger.debug("%s: %s: %s", self._ref, where, failure)
            return ""
        else:
            logger.error("%s: forwarding %s failed", self._ref, where, exc_info=failure)
            text = "internal error"
        return "" if forward.answered else f"error forwarding {where}: {text}"

    async def _relay(self, forward: _Forward, stream: ByteStream) -> Exception | None:
        """Copy until both directions have ended, and return what broke it."""
        async with asyncio.TaskGroup() as group:
            copying = group.create_task(
                self._copy_to_pod(forward, stream), name=f"forward {forward.id} to the pod"
            )
            failure = await self._copy_to_client(forward, stream)
            if failure is not None or not self._core.half_closes:
                copying.cancel()
        return failure

    async def _copy_to_pod(self, forward: _Forward, stream: ByteStream) -> None:
        try:
            while data := await self._read(forward):
                await stream.write(data)
            await stream.write_eof()
        except Exception as error:  # noqa: BLE001 - reading tells what matters
            logger.debug("%s: port %d takes no more: %s", self._ref, forward.port, error)
            self._discard(forward)

    async def _read(self, forward: _Forward) -> bytes:
        while not forward.buffer:
            if forward.ended:
                return b""
            forward.moved.clear()
            await forward.moved.wait()
        data = bytes(forward.buffer[:MAX_READ_BYTES])
        del forward.buffer[:MAX_READ_BYTES]
        self._count_taken(len(data))
        return data

    async def _copy_to_client(self, forward: _Forward, stream: ByteStream) -> Exception | None:
        try:
            while data := await stream.read():
                forward.answered = True
                for start in range(0, len(data), MAX_DATA_FRAME_BYTES):
                    await self._write(forward, data[start : start + MAX_DATA_FRAME_BYTES])
        except Exception as error:  # noqa: BLE001 - handed back, as a TaskGroup would wrap it
            return error
        self._core.send_eof(forward.id)
        self._flush()
        return None

    async def _write(self, forward: _Forward, data: bytes) -> None:
        """Write when it's this forward's turn: none hogs a slow client's connection."""
        async with self._turn:
            await self._wait_writable()
            self._note_data()
            self._core.send_data(forward.id, data)
            self._flush()
