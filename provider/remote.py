"""The remote cluster as a provider: implements the interface over nodes, pods and streams."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn

from provider.acceptance import wait_accepted
from provider.errors import MissingRightsError
from provider.nodes.remote_nodes import RemoteNodes
from provider.pods.remote_pods import RemotePods
from provider.pods.removal import NamespaceRemoval
from provider.pods.usage import HomeUsage, OwnUsage, RemoteUsage
from provider.reachability import Reachability
from provider.reflection.dependents import Dependents
from provider.reflection.events import RemoteEvents
from provider.rights import explain_missing, find_missing_rights, remote_rights
from provider.stats.remote_stats import RemoteStats
from provider.streams.relay import RemoteStreams
from vkubelet.errors import RequestError
from vkubelet.interface import (
    ByteStream,
    CommandStreams,
    ExitStatus,
    LogOptions,
    NodeUsage,
    PodRef,
    StatusEvent,
    VirtualNode,
)
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import KubeObject, NamespacedName
from vkubelet.pods.home import HomePods
from vkubelet.supervision import run_component


class RemoteProvider:
    """
    Runs pods in the remote cluster.

    It implements `vkubelet.interface.Provider`. Until the remote API has been reached once, and has
    said that all rights are there, nothing is watched and no node is wanted.
    """

    def __init__(
        self,
        client: KubeClient,
        nodes: RemoteNodes,
        usage: RemoteUsage | OwnUsage,
        pods: RemotePods,
        dependents: Dependents,
        *,
        removal: NamespaceRemoval | None = None,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._usage = usage
        self._home_usage = HomeUsage(nodes.ledger)
        self._pods = pods
        self._dependents = dependents
        self._removal = removal
        self._events = RemoteEvents(client, pods.tell)
        pods.followed.add_handler(self._events.handle_remote_pod)
        nodes.add_selection_handler(pods.handle_selection)
        self._streams = RemoteStreams(client)
        self._stats = RemoteStats(client, pods.followed, physical_node=nodes.physical_node)
        self._reachability = Reachability(client)
        self._reachability.add_handler(pods.set_trouble)

    @property
    def trouble(self) -> str | None:
        """Why the remote API can't be reached; None when it can, "" before the first answer."""
        return self._reachability.trouble

    def follow_home_pods(self, pods: HomePods) -> None:
        """Take the view of the home pods on our nodes; to be done before anything runs."""
        self._home_usage.follow(pods)
        self._pods.follow_home_pods(pods)
        self._dependents.follow_home_pods(pods)
        self._events.follow_home_pods(pods)

    async def run(self) -> NoReturn:
        """
        Keep in step with the remote cluster until cancelled.

        Raises:
            MissingRightsError: If the credentials lack rights, when first reached.
            StartError: If they aren't accepted at all, when first reached.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(
                run_component("remote probe", self._reachability.run), name="remote probe"
            )
            await wait_accepted("remote", self._check_rights)
            report = self._reachability.failure_handler
            self._nodes.informer.add_failure_handler(report("nodes"))
            self._usage.report_failures(report)
            self._pods.followed.report_failures(report)
            parts: list[tuple[str, Callable[[], Awaitable[NoReturn]]]] = [
                ("remote nodes", self._nodes.informer.run),
                ("remote usage", self._usage.run),
                ("remote pods", self._pods.run),
                ("dependents", self._dependents.run),
                ("remote events", self._events.run),
                ("remote streams", self._streams.run),
                ("remote stats", self._stats.run),
            ]
            if self._removal is not None:
                parts.append(("remote namespaces", self._removal.run))
            for name, run in parts:
                group.create_task(run_component(name, run), name=name)
        raise AssertionError("the tasks above end only by an exception")

    async def _check_rights(self) -> None:
        rights = remote_rights(self._pods.followed.namespaces)
        missing = await find_missing_rights(self._client, rights)
        if missing:
            raise MissingRightsError(
                "remote", [str(right) for right in missing], explain_missing(missing)
            )

    async def watch_nodes(self) -> AsyncIterator[Sequence[VirtualNode]]:
        """See `Provider.watch_nodes`; what is used, on both sides, is known before the first."""
        await self._usage.wait_synced()
        await self._home_usage.wait_synced()
        async for nodes in self._nodes.watch():
            yield nodes

    async def apply_pod(self, node: str, pod: KubeObject) -> Sequence[str]:
        """See `Provider.apply_pod`."""
        return await self._pods.apply(node, pod)

    async def delete_pod(self, ref: PodRef, *, grace_period_seconds: int | None) -> None:
        """See `Provider.delete_pod`."""
        await self._pods.delete(ref, grace_period_seconds=grace_period_seconds)

    def watch_statuses(self) -> AsyncIterator[StatusEvent]:
        """See `Provider.watch_statuses`."""
        return self._pods.watch_statuses()

    def logs(self, ref: PodRef, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """See `Provider.logs`."""
        key = self._find(ref, container)
        return self._streams.logs(key, container, options, home_namespace=ref.namespace)

    async def exec(
        self,
        ref: PodRef,
        container: str,
        command: Sequence[str],
        streams: CommandStreams,
        *,
        tty: bool,
    ) -> ExitStatus:
        """See `Provider.exec`."""
        key = self._find(ref, container)
        return await self._streams.exec(
            key, container, command, streams, tty=tty, home_namespace=ref.namespace
        )

    async def attach(
        self, ref: PodRef, container: str, streams: CommandStreams, *, tty: bool
    ) -> ExitStatus:
        """See `Provider.attach`."""
        key = self._find(ref, container)
        return await self._streams.attach(
            key, container, streams, tty=tty, home_namespace=ref.namespace
        )

    @asynccontextmanager
    async def port_forward(self, ref: PodRef, port: int) -> AsyncIterator[ByteStream]:
        """See `Provider.port_forward`."""
        key = self._pods.find(ref)
        if key is None:
            raise RequestError(404, f'pod "{ref.name}" does not exist')
        async with self._streams.port_forward(
            key, port, home_namespace=ref.namespace, home_uid=ref.uid
        ) as stream:
            yield stream

    async def stats(self, node: str) -> NodeUsage:
        """See `Provider.stats`."""
        return await self._stats.read(node)

    def _find(self, ref: PodRef, container: str) -> NamespacedName:
        """
        Find the remote pod of a home pod.

        Raises:
            RequestError: If it isn't there yet, in the kubelet's words for that.
        """
        key = self._pods.find(ref)
        if key is None:
            raise RequestError(400, f'container "{container}" in pod "{ref.name}" is not available')
        return key
