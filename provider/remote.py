"""The remote cluster as a provider: implements the interface over nodes, pods and streams."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import NoReturn

from provider.errors import MissingRightsError, StartError
from provider.nodes.remote_nodes import RemoteNodes
from provider.pods.remote_pods import RemotePods
from provider.pods.usage import RemoteUsage
from provider.reachability import Reachability
from provider.rights import find_missing_rights, remote_rights
from provider.streams.relay import RemoteStreams
from vkubelet.errors import RequestError
from vkubelet.interface import (
    CommandStreams,
    ExitStatus,
    LogOptions,
    PodRef,
    StatusEvent,
    VirtualNode,
)
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ForbiddenError, KubeError, UnauthorizedError
from vkubelet.kube.objects import KubeObject, NamespacedName
from vkubelet.supervision import run_component

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0


class RemoteProvider:
    """
    Runs pods in the remote cluster.

    It implements `vkubelet.interface.Provider`. Until the remote API has been reached once, and has
    said that all rights are there, nothing is watched and no node is wanted.
    """

    def __init__(
        self, client: KubeClient, nodes: RemoteNodes, usage: RemoteUsage, pods: RemotePods
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._usage = usage
        self._pods = pods
        self._streams = RemoteStreams(client)
        self._reachability = Reachability(client)
        self._reachability.add_handler(pods.set_trouble)

    @property
    def trouble(self) -> str | None:
        """Why the remote API can't be reached; None when it can, "" before the first answer."""
        return self._reachability.trouble

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
            await self._wait_accepted()
            report = self._reachability.failure_handler
            self._nodes.informer.add_failure_handler(report("nodes"))
            self._usage.informer.add_failure_handler(report("usage"))
            self._pods.informer.add_failure_handler(report("pods"))
            for name, run in (
                ("remote nodes", self._nodes.informer.run),
                ("remote usage", self._usage.informer.run),
                ("remote pods", self._pods.run),
            ):
                group.create_task(run_component(name, run), name=name)
        raise AssertionError("the tasks above end only by an exception")

    async def _wait_accepted(self) -> None:
        while True:
            try:
                missing = await find_missing_rights(self._client, remote_rights())
            except (UnauthorizedError, ForbiddenError) as error:
                raise StartError(f"the remote credentials aren't accepted: {error}") from error
            except KubeError as error:
                logger.debug("remote API server: %s", error)
            else:
                if missing:
                    raise MissingRightsError("remote", [str(right) for right in missing])
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def watch_nodes(self) -> AsyncIterator[Sequence[VirtualNode]]:
        """See `Provider.watch_nodes`; what is used is known before the first."""
        await self._usage.informer.wait_synced()
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
