"""Composes a kubelet for any provider: certificate, port, Node, Lease, server, pods."""

import asyncio
import contextlib
import errno
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from prometheus_client import Gauge

from vkubelet.config import KubeletPolicy
from vkubelet.errors import ComponentExitedError, VkubeletError
from vkubelet.interface import CertificateSource, Provider, ServingCertificate
from vkubelet.kube.backoff import compute_delay
from vkubelet.kube.client import KubeClient
from vkubelet.kube.events import EventRecorder
from vkubelet.node.controller import NodeController
from vkubelet.node.lease import NodeLeases
from vkubelet.pods.controller import PodController
from vkubelet.pods.drain import PodDrain
from vkubelet.pods.home import HomePods
from vkubelet.pods.phases import PodPhases
from vkubelet.ports import NoFreePortError, choose_ports
from vkubelet.server.authentication import Authenticator
from vkubelet.server.authorization import Authorizer
from vkubelet.server.client_ca import ClientCa
from vkubelet.server.errors import ListenError, ServingCertificateError
from vkubelet.server.listener import NodeServer, serve_node
from vkubelet.server.policy import ServerPolicy
from vkubelet.server.services import KubeletServices
from vkubelet.server.tls import ServingTls
from vkubelet.supervision import run_component

logger = logging.getLogger(__name__)

CERTIFICATE_EXPIRY = Gauge(
    "vkubelet_certificate_expiry_timestamp_seconds",
    "When the serving certificate of a virtual node expires.",
    ("node",),
)
VIRTUAL_NODES = Gauge("vkubelet_virtual_nodes", "Virtual nodes that are served or to be.")

T = TypeVar("T")

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0

_CLIENT_CA_SECONDS = 5.0

_TURN_SIZE = 100
"""Events that are taken in one go before other tasks, Leases first of all, get a turn."""


class Kubelet:
    """
    The virtual nodes of one provider.

    Attributes:
        home_pods: The pods on our nodes; read-only, synced once `wait_ready` returns.
    """

    home_pods: HomePods

    def __init__(
        self,
        provider: Provider,
        home: KubeClient,
        certificates: CertificateSource,
        policy: KubeletPolicy,
    ) -> None:
        """
        Compose, in a running loop; nothing happens before `run`.

        Args:
            provider: What runs the pods.
            home: An entered client to the home cluster; the caller closes it after `run` has ended.
            certificates: Where the serving certificates come from.
            policy: What the user decided.
        """
        self._provider = provider
        self._client = home
        self._certificates = certificates
        self._policy = policy
        self._events = EventRecorder(home, component=policy.field_manager)
        self._client_ca = ClientCa(home)
        self.home_pods = HomePods(home)
        self._phases = PodPhases(self.home_pods)
        self._drain = PodDrain(home, self.home_pods)
        self._nodes = NodeController(home, self._events, policy, self._drain)
        self._leases = NodeLeases(home, policy, self._nodes.find_uid)
        self._pods = PodController(provider, home, self.home_pods, self._events, policy)
        self._services = KubeletServices(
            provider=provider,
            pods=self.home_pods,
            authenticator=Authenticator(home),
            authorizer=Authorizer(home),
            capacity=self._nodes.capacity,
            policy=ServerPolicy(
                stream_creation_seconds=policy.stream_creation_seconds,
                stream_idle_seconds=policy.stream_idle_seconds,
            ),
        )
        self._ports: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        self._port_freed = asyncio.Event()
        self._names_changed = asyncio.Event()
        self._progress = asyncio.Event()
        self._ready = asyncio.Event()
        self._nodes.add_handler(self._names_changed.set)
        self._nodes.add_handler(self._progress.set)
        self._nodes.add_handler(self._leases.look)

    @property
    def ready(self) -> bool:
        """Whether both sides are synced, and each wanted node is published or has said why not."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        """Wait until `ready` for the first time."""
        await self._ready.wait()

    async def run(self) -> NoReturn:
        """
        Run all nodes until cancelled.

        Cancelling stops everything in order, Leases last; Nodes and pods stay as they are, so that
        a restart disturbs nobody. A node that fails is tried again, with back-off, and doesn't stop
        the others.
        """
        async with asyncio.TaskGroup() as base:
            base.create_task(run_component("events", self._events.run), name="events")
            base.create_task(run_component("leases", self._leases.run), name="leases")
            async with asyncio.TaskGroup() as working:
                for name, run in {
                    "client CA": self._client_ca.run,
                    "certificates": self._certificates.run,
                    "nodes": self._nodes.run,
                    "drain": self._drain.run,
                    "home pods": self.home_pods.run,
                    "pods": self._pods.run,
                    "provider nodes": self._feed_nodes,
                    "provider statuses": self._feed_statuses,
                    "readiness": self._become_ready,
                }.items():
                    working.create_task(run_component(name, run), name=name)
                await self._run_nodes(working)
        raise AssertionError("a kubelet only ends by an exception")

    async def _feed_nodes(self) -> None:
        async with _closing(self._provider.watch_nodes()) as sets:
            async for nodes in sets:
                self._nodes.set_desired(nodes)

    async def _feed_statuses(self) -> None:
        number = 0
        async with _closing(self._provider.watch_statuses()) as events:
            async for event in events:
                self._nodes.handle_status(event)
                self._pods.handle_status(event)
                number += 1
                if number % _TURN_SIZE == 0:
                    await asyncio.sleep(0)

    async def _become_ready(self) -> NoReturn:
        await self._pods.wait_synced()
        while not self._all_settled():
            self._progress.clear()
            await self._progress.wait()
        self._ready.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets that event")

    def _all_settled(self) -> bool:
        return self._nodes.synced and all(
            name in self._failures or self._nodes.is_taken(name) or self._nodes.is_published(name)
            for name in self._nodes.names
        )

    # One node.

    async def _run_nodes(self, working: asyncio.TaskGroup) -> NoReturn:
        """Serve the nodes that are wanted, as they come, and till they have gone."""
        await self._nodes.wait_synced()
        tasks: dict[str, asyncio.Task[NoReturn]] = {}
        ending: dict[str, asyncio.Task[None]] = {}
        while True:
            self._names_changed.clear()
            names = self._nodes.names
            VIRTUAL_NODES.set(len(names))
            self.home_pods.set_nodes(names)
            self._pods.set_leaving(self._nodes.leaving_names)
            for name in sorted(names - tasks.keys()):
                run = self._run_node(name, after=ending.get(name))
                tasks[name] = working.create_task(run, name=f"node {name}")
            for name in tasks.keys() - names:
                task, before = tasks.pop(name), ending.get(name)
                task.cancel()
                awaited = [task] if before is None else [task, before]
                end = self._end_node(name, awaited, forget=self._nodes.synced)
                ending[name] = working.create_task(end, name=f"end of node {name}")
            for name in [name for name, task in ending.items() if task.done()]:
                del ending[name]
            await self._names_changed.wait()

    async def _end_node(
        self, name: str, awaited: Sequence[asyncio.Task[Any]], *, forget: bool
    ) -> None:
        """Wait until a node isn't served any more, and let its certificate go with it."""
        await asyncio.wait(awaited)
        self._failures.pop(name, None)
        logger.info("%s: not served any more", name)
        if forget:
            try:
                await asyncio.to_thread(self._certificates.forget, name)
            except (VkubeletError, OSError) as error:
                logger.warning("%s: its certificate stays: %s", name, error)

    async def _run_node(self, name: str, *, after: asyncio.Task[None] | None) -> NoReturn:
        """
        Serve one node until cancelled; its Lease is renewed whatever happens to its server.

        Args:
            name: The node.
            after: The end of an earlier run for that name, whose port has to be free first.
        """
        if after is not None:
            await asyncio.wait([after])
        try:
            while True:
                try:
                    await self._nodes.claim(name)
                    self._leases.add(name)
                    await self._serve(name)
                except (VkubeletError, OSError) as error:
                    failures = self._failures[name] = self._failures.get(name, 0) + 1
                    delay = compute_delay(
                        failures,
                        base_seconds=_FIRST_RETRY_SECONDS,
                        max_seconds=_LAST_RETRY_SECONDS,
                    )
                    self._progress.set()
                    logger.error("%s: can't be served, again in %.1f s: %s", name, delay, error)  # noqa: TRY400 - no bug
                    await self._pause(delay, error)
        finally:
            self._leases.remove(name)

    async def _pause(self, seconds: float, error: Exception) -> None:
        """Wait before the next try; who lacks a port is woken when one becomes free."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if isinstance(error, NoFreePortError):
                    await self._port_freed.wait()
                else:
                    await asyncio.sleep(seconds)

    def _free_port(self, name: str) -> None:
        del self._ports[name]
        freed, self._port_freed = self._port_freed, asyncio.Event()
        freed.set()

    async def _serve(self, name: str) -> NoReturn:
        """Listen, publish the Node, and follow the certificate."""
        with contextlib.suppress(TimeoutError):  # it may come later; until then only tokens count
            async with asyncio.timeout(_CLIENT_CA_SECONDS):
                await self._client_ca.wait_synced()
        source = self._certificates.watch_certificate(name, [self._policy.address])
        async with _closing(source) as certificates:
            first = await anext(certificates)
            tls = ServingTls(first, self._client_ca.pem)
            with self._following_client_ca(tls):
                async with self._listening(name, tls) as server:
                    self._failures.pop(name, None)
                    self._nodes.set_port(name, server.port)
                    CERTIFICATE_EXPIRY.labels(name).set(first.not_after.timestamp())
                    try:
                        async for certificate in certificates:
                            self._replace_certificate(name, tls, certificate)
                    finally:
                        self._nodes.set_port(name, None)
                        CERTIFICATE_EXPIRY.remove(name)
        raise ComponentExitedError(f"certificates of {name}")

    def _replace_certificate(
        self, name: str, tls: ServingTls, certificate: ServingCertificate
    ) -> None:
        try:
            tls.replace_certificate(certificate)
            CERTIFICATE_EXPIRY.labels(name).set(certificate.not_after.timestamp())
        except ServingCertificateError as error:
            logger.error("%s: the new certificate isn't used: %s", name, error)  # noqa: TRY400 - no bug

    @contextlib.contextmanager
    def _following_client_ca(self, tls: ServingTls) -> Iterator[None]:
        def replace(pem: str) -> None:
            tls.replace_client_ca(pem)

        self._client_ca.add_handler(replace)
        try:
            yield
        finally:
            self._client_ca.remove_handler(replace)

    @contextlib.asynccontextmanager
    async def _listening(self, name: str, tls: ServingTls) -> AsyncIterator[NodeServer]:
        """
        Serve the node on the port that its Node already has, else the lowest free one.

        Raises:
            NoFreePortError: If all are in use.
            ListenError: If the address can't be listened on at all.
        """
        policy = self._policy
        host = policy.bind_address or ("::" if ":" in policy.address else "0.0.0.0")  # noqa: S104 - asked for
        published = self._nodes.published_ports()
        known = published.pop(name, 0)
        reserved = {*published.values(), *self._ports.values()}
        async with contextlib.AsyncExitStack() as stack:
            for port in choose_ports(policy.ports, known, reserved):
                serving = serve_node(name, host=host, port=port, tls=tls, services=self._services)
                try:
                    server = await stack.enter_async_context(serving)
                except ListenError as error:
                    if not _is_in_use(error):
                        raise
                    logger.info("%s: port %d is in use, trying the next", name, port)
                    continue
                self._ports[name] = server.port
                stack.callback(self._free_port, name)
                yield server
                return
        raise NoFreePortError(policy.port_setting, policy.ports)


def _is_in_use(error: ListenError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE


@contextlib.asynccontextmanager
async def _closing(iterator: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Close a generator at the end of the block, rather than when it's collected."""
    try:
        yield iterator
    finally:
        if isinstance(iterator, AsyncGenerator):
            await iterator.aclose()
