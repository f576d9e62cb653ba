"""Connections to ports of remote pods: shared upstreams, and by which protocol they are made."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from provider.streams.exec import choose_refusal
from provider.streams.failures import RemotePod, refuses_protocol
from provider.streams.legacy_forward import open_legacy_forward
from provider.streams.pipes import BytePipe, WebSocketPipe
from provider.streams.upstream import BROKEN, ForwardedStream, Upstream, UpstreamEndedError
from vkubelet.errors import RequestError
from vkubelet.interface import ByteStream
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError, UpgradeError
from vkubelet.kube.objects import PODS, NamespacedName
from vkubelet.streaming.portforward import PORT_FORWARD_PROTOCOL, TUNNEL_PROTOCOL

logger = logging.getLogger(__name__)

_WHAT = "pods/portforward"
_MAX_TRIES = 3
"""An upstream may end just when a connection is opened on it; the third is a new one."""


@dataclass(slots=True)
class _Shared:
    """An upstream that several callers use, while it's opened and later."""

    opened: asyncio.Event = field(default_factory=asyncio.Event)
    upstream: Upstream | None = None
    failure: KubeError | None = None

    @property
    def usable(self) -> bool:
        return self.failure is None and (self.upstream is None or self.upstream.usable)


class PortForwards:
    """
    Connections to ports of remote pods, while `run` runs; one upstream a pod is shared by many.

    An upstream that reported an error, is slow or has ended is replaced by another for those who
    come later.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._group: asyncio.TaskGroup | None = None
        self._shared: dict[tuple[NamespacedName, str], _Shared] = {}

    async def run(self) -> NoReturn:
        """Own the upstreams until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None
        raise AssertionError("nothing sets that event")

    @asynccontextmanager
    async def connect(self, pod: RemotePod, home_uid: str, port: int) -> AsyncIterator[ByteStream]:
        """
        Connect to a port of a remote pod; see `Provider.port_forward`.

        Args:
            pod: The remote pod.
            home_uid: UID of its home pod: another one's upstream isn't used.
            port: In the pod.

        Raises:
            RequestError: When entered, if the server refuses; that nobody listens shows at reading.
        """
        async with AsyncExitStack() as stack:
            yield await self._open(stack, pod, home_uid, port)

    async def _open(
        self, stack: AsyncExitStack, pod: RemotePod, home_uid: str, port: int
    ) -> ByteStream:
        for _ in range(_MAX_TRIES):
            shared = self._find(pod, home_uid)
            await shared.opened.wait()
            if shared.failure is not None:
                if refuses_protocol(shared.failure):
                    return await self._open_alone(stack, pod, port, shared.failure)
                raise pod.build_error(_WHAT, shared.failure) from shared.failure
            if shared.upstream is None:
                break
            try:
                stream = await self._open_stream(stack, shared.upstream, port)
            except UpstreamEndedError:
                logger.debug("%s: port-forward: another upstream is needed", pod.key)
            else:
                return stream
        raise RequestError(500, BROKEN)

    @staticmethod
    async def _open_stream(stack: AsyncExitStack, upstream: Upstream, port: int) -> ForwardedStream:
        stream = await upstream.open(port)
        stack.callback(upstream.drop, stream)
        return stream

    async def _open_alone(
        self, stack: AsyncExitStack, pod: RemotePod, port: int, refusal: KubeError
    ) -> ByteStream:
        """Take the last resort: a WebSocket for this connection only."""
        try:
            return await stack.enter_async_context(open_legacy_forward(self._client, pod, port))
        except KubeError as error:
            told = refusal if refuses_protocol(error) else error
            raise pod.build_error(_WHAT, told) from error

    def _find(self, pod: RemotePod, home_uid: str) -> _Shared:
        key = (pod.key, home_uid)
        shared = self._shared.get(key)
        if shared is None or not shared.usable:
            if self._group is None:
                raise RequestError(500, "port-forwarding isn't running (any more)")
            shared = self._shared[key] = _Shared()
            self._group.create_task(
                self._run_upstream(key, shared, pod), name=f"port-forward {pod.key}"
            )
        return shared

    async def _run_upstream(
        self, key: tuple[NamespacedName, str], shared: _Shared, pod: RemotePod
    ) -> None:
        try:
            async with AsyncExitStack() as stack:
                pipe = await self._open_pipe(stack, pod)
                shared.upstream = Upstream(pipe, pod)
                shared.opened.set()
                await shared.upstream.run()
        except KubeError as error:
            shared.failure = error
        except Exception:
            # One pod's connections must not end the process.
            logger.exception("%s: port-forward failed", pod.key)
        finally:
            shared.opened.set()
            if self._shared.get(key) is shared:
                del self._shared[key]

    async def _open_pipe(self, stack: AsyncExitStack, pod: RemotePod) -> BytePipe:
        """
        Open what carries SPDY: a WebSocket tunnel, else SPDY itself.

        Raises:
            KubeError: If both are refused, the one that tells more.
        """
        client = self._client
        path = PODS.path(pod.key.namespace, pod.key.name, "portforward")
        try:
            tunnel = client.connect_websocket(path, [], protocols=[TUNNEL_PROTOCOL])
            return WebSocketPipe(await stack.enter_async_context(tunnel))
        except KubeError as error:
            if not refuses_protocol(error):
                raise
            logger.debug("%s: %s: trying another protocol: %s", pod.key, _WHAT, error)
            refusal = error
        try:
            connection = await stack.enter_async_context(
                client.connect_spdy(path, [], protocols=[PORT_FORWARD_PROTOCOL])
            )
        except KubeError as error:
            if not refuses_protocol(error):
                raise
            raise choose_refusal([refusal, error]) from error
        if connection.protocol != PORT_FORWARD_PROTOCOL:
            raise UpgradeError(f"{client.server}: doesn't speak {PORT_FORWARD_PROTOCOL}")
        return connection
