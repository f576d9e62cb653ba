"""The steps of a teardown, in order; each may be taken again."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from provider.bound_pods import list_pods_on
from provider.labels import HOME_POD_UID
from provider.peering import Peering
from provider.pods.remnants import Kinds, discover_kinds, remove_namespace
from provider.teardown.inventory import (
    Found,
    Inventory,
    name_object,
    take_inventory,
)
from provider.teardown.liveness import NODE_LEASES
from vkubelet.kube.client import KubeClient, PatchType
from vkubelet.kube.errors import ConflictError, KubeError, NotFoundError, TooManyRequestsError
from vkubelet.kube.eviction import evict_pod
from vkubelet.kube.objects import LEASES, NODES, PODS, KubeObject, NamespacedName

_T = TypeVar("_T")

AT_ONCE = 20
"""Requests that are under way at the same time."""
POLL_SECONDS = 1.0
REMOTE_SECONDS = 60.0
"""How long remote pods may take to end, beside their own grace."""
DAEMON_SET = "DaemonSet"
MIRROR = "kubernetes.io/config.mirror"


class Teardown:
    """
    Removes a peering.

    While it works, nobody else may serve the virtual nodes: it does what their kubelet would have
    done, and ends a home pod once its remote pod is gone.
    """

    def __init__(
        self,
        home: KubeClient,
        remote: KubeClient | None,
        peering: Peering,
        say: Callable[[str], None],
    ) -> None:
        """
        Say where; nothing happens before `run`.

        Args:
            home: The home cluster.
            remote: The remote cluster, None if it's to be left alone.
            peering: What is removed.
            say: Called with a sentence for each thing that is done, or can't be.
        """
        self._home = home
        self._remote = remote
        self._peering = peering
        self._say = say
        self._told: set[str] = set()
        self._left = False

    async def run(self, inventory: Inventory, *, drain_seconds: float) -> bool:
        """
        Remove all of it.

        Args:
            inventory: What there was when it was asked for.
            drain_seconds: How long evictions may take; what is left then goes with its Node.

        Returns:
            Whether nothing of ours is left, but namespaces that others use, too.

        Raises:
            KubeError: If an API server can't be asked; what is done stays done.
        """
        await self._for_each(inventory.nodes, self._cordon)
        await self._drain([node.key.name for node in inventory.nodes], drain_seconds)
        if self._remote is not None:
            await self._clear_remote(self._remote)
        await self._for_each(inventory.nodes, self._remove_node)
        stray = await list_pods_on(self._home, [node.key.name for node in inventory.nodes])
        await self._for_each([name_object(PODS, pod) for pod in stray], self._end_home_pod)
        return not self._left

    # Home.

    async def _cordon(self, node: Found) -> None:
        patch = {"metadata": {"uid": node.uid}, "spec": {"unschedulable": True}}
        with suppress(NotFoundError, ConflictError):
            await self._home.patch(NODES, node.key, patch, PatchType.MERGE)
            self._say(f"home: {node} is cordoned")

    async def _drain(self, nodes: list[str], seconds: float) -> None:
        """Evict the pods of all nodes, and end each when its remote pod is gone."""
        deadline = _now() + seconds
        while True:
            pods = [pod for pod in await list_pods_on(self._home, nodes) if _is_evicted(pod)]
            if not pods:
                return
            if _now() >= deadline:
                self._say(f"home: {len(pods)} pods aren't evicted in time: they go with their Node")
                return
            remote = await self._remote_pods_by_home_uid()
            await self._for_each(pods, partial(self._advance, remote))
            await asyncio.sleep(POLL_SECONDS)

    async def _remote_pods_by_home_uid(self) -> dict[str, KubeObject]:
        return {
            pod["metadata"].get("labels", {}).get(HOME_POD_UID, ""): pod
            for pod in await self._list_remote_pods()
        }

    async def _list_remote_pods(self) -> list[KubeObject]:
        if self._remote is None:
            return []
        return await self._remote.list(PODS, label_selector=self._peering.label_selector)

    async def _advance(self, remote: dict[str, KubeObject], pod: KubeObject) -> None:
        """Bring the end of a home pod one step further."""
        found, metadata = name_object(PODS, pod), pod["metadata"]
        behind = remote.get(found.uid)
        if not metadata.get("deletionTimestamp"):
            await self._evict(found)
        elif behind is None:
            await self._end_home_pod(found)
        elif not behind["metadata"].get("deletionTimestamp"):
            grace = metadata.get("deletionGracePeriodSeconds")
            await self._delete_remote_pod(name_object(PODS, behind), grace)

    async def _evict(self, pod: Found) -> None:
        try:
            await evict_pod(self._home, pod.key, uid=pod.uid)
        except (NotFoundError, ConflictError):
            return  # gone, or another pod
        except TooManyRequestsError as error:
            self._say_once(f"home: {pod} isn't evicted yet: {error.message}")
            return
        self._say(f"home: {pod} is evicted")

    async def _end_home_pod(self, pod: Found) -> None:
        if await _delete(self._home, pod, grace_period_seconds=0):
            self._say(f"home: {pod} is removed")

    async def _remove_node(self, node: Found) -> None:
        if await _delete(self._home, node):
            self._say(f"home: {node} is removed")
        lease = NamespacedName(NODE_LEASES, node.key.name)
        with suppress(NotFoundError):
            await self._home.delete(LEASES, lease)

    # The remote side.

    async def _delete_remote_pod(self, pod: Found, grace: int | None) -> None:
        if self._remote is not None and await _delete(
            self._remote, pod, grace_period_seconds=grace
        ):
            self._say(f"remote: {pod} is being deleted")

    async def _clear_remote(self, remote: KubeClient) -> None:
        """Remove pods, then anchors, then the namespaces that hold nothing else."""
        if not await self._end_remote_pods():
            return
        inventory = await take_inventory(self._home, remote, self._peering)
        for config_map in inventory.config_maps:
            if await _delete(remote, config_map):
                self._say(f"remote: {config_map} is removed")
        kinds = await discover_kinds(remote) if inventory.namespaces else None
        for namespace in inventory.namespaces:
            if kinds is not None:
                await self._remove_namespace(remote, namespace, kinds)

    async def _remove_namespace(self, remote: KubeClient, namespace: Found, kinds: Kinds) -> None:
        name = namespace.key.name
        try:
            foreign = await remove_namespace(remote, name, kinds, self._peering, uid=namespace.uid)
        except (NotFoundError, ConflictError):
            return  # gone, or another one
        except KubeError as error:
            self._leave(f"remote: {namespace} is left: what it holds can't be seen: {error}")
            return
        if foreign is not None:
            self._say(f"remote: {namespace} is left: it holds {foreign}, which isn't ours")
        else:
            self._say(f"remote: {namespace} is removed")

    async def _end_remote_pods(self) -> bool:
        """Delete all remote pods and wait until they are gone; whether they are."""
        deadline = _now() + REMOTE_SECONDS
        asked: set[str] = set()
        while pods := await self._list_remote_pods():
            for pod in pods:
                found, metadata = name_object(PODS, pod), pod["metadata"]
                grace = metadata.get("deletionGracePeriodSeconds") or 0
                if found.uid not in asked:
                    asked.add(found.uid)
                    deadline = max(deadline, _now() + grace + REMOTE_SECONDS)
                if not metadata.get("deletionTimestamp"):
                    await self._delete_remote_pod(found, None)
            if _now() >= deadline:
                self._leave(f"remote: {len(pods)} pods aren't gone yet, nor what they need")
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    # Saying it.

    def _leave(self, text: str) -> None:
        self._left = True
        self._say(text)

    def _say_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._say(text)

    async def _for_each(self, items: Iterable[_T], act: Callable[[_T], Awaitable[None]]) -> None:
        """Act on all of them, some at once; the first error ends it."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def act_in_turn(item: _T) -> None:
            async with slots:
                await act(item)

        try:
            async with asyncio.TaskGroup() as group:
                for item in items:
                    group.create_task(act_in_turn(item), name="teardown")
        except* KubeError as errors:
            raise errors.exceptions[0] from errors


def _is_evicted(pod: KubeObject) -> bool:
    """Whether it's one that an eviction makes go: those of DaemonSets come back at once."""
    metadata = pod["metadata"]
    if MIRROR in metadata.get("annotations", {}):
        return False
    return not any(
        owner.get("controller") and owner["kind"] == DAEMON_SET
        for owner in metadata.get("ownerReferences", ())
    )


async def _delete(
    client: KubeClient, item: Found, *, grace_period_seconds: int | None = None
) -> bool:
    """Delete an object; whether it was there."""
    try:
        await client.delete(
            item.resource, item.key, uid=item.uid, grace_period_seconds=grace_period_seconds
        )
    except (NotFoundError, ConflictError):
        return False
    return True


def _now() -> float:
    return asyncio.get_running_loop().time()
