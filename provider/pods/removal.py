"""Removes remote namespaces whose home namespaces are gone, once they hold nothing of others."""

import asyncio
import logging
from collections import Counter
from typing import NoReturn

from provider.peering import Peering
from provider.pods.followed import FollowedPods
from provider.pods.namespaces import RemoteNamespaces, home_namespace_of
from provider.pods.remnants import discover_kinds, remove_namespace
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ConflictError, ForbiddenError, KubeError, NotFoundError
from vkubelet.kube.objects import NAMESPACES, CachedObject, KubeObject, NamespacedName
from vkubelet.kube.workqueue import WorkQueue

logger = logging.getLogger(__name__)

LOOK_SECONDS = 300.0
"""How often all remote namespaces of ours are looked at: one may have been empty for long."""

EMPTIED_SECONDS = 20.0
"""When one is looked at whose last pod is gone: so is its home namespace, mostly, by then."""

ENDING_SECONDS = 15.0
"""When one is looked at again whose home namespace is being deleted."""

HELD_SECONDS = 3600.0
"""When one is looked at again that holds something of others: a look at all kinds is dear."""


class NamespaceRemoval:
    """
    Takes away what `RemoteNamespaces` made, as soon as it's of no use any more.

    That takes rights which nothing else needs: to get namespaces at home; to list and delete them
    over there, and to list objects of every kind. Without them the namespaces stay.
    """

    def __init__(
        self,
        home: KubeClient,
        remote: KubeClient,
        peering: Peering,
        namespaces: RemoteNamespaces,
        followed: FollowedPods,
    ) -> None:
        """
        Say where; nothing is looked at before `run`.

        Args:
            home: Client to the home cluster.
            remote: Client to the remote cluster.
            peering: Whose namespaces they are.
            namespaces: Makes them, and is told of their end.
            followed: Our remote pods.
        """
        self._home = home
        self._remote = remote
        self._peering = peering
        self._namespaces = namespaces
        self._followed = followed
        self._pods: Counter[str] = Counter()
        self._held_until: dict[str, float] = {}  # by UID
        self._queue: WorkQueue[str] = WorkQueue("remote namespaces", max_delay_seconds=LOOK_SECONDS)
        self._told_rights = False
        followed.add_handler(self._on_remote_pod)

    async def run(self) -> NoReturn:
        """Look after them until cancelled."""
        await self._followed.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_at_all(), name="remote namespaces, all")
            await self._queue.run(self._reconcile, workers=1)
        raise AssertionError("the queue runs until it's cancelled")

    async def _look_at_all(self) -> NoReturn:
        while True:
            try:
                found = await self._remote.list(
                    NAMESPACES, label_selector=self._peering.label_selector
                )
            except ForbiddenError as error:
                self._tell_rights(error)
            except KubeError as error:
                logger.debug("remote namespaces aren't looked at: %s", error)
            else:
                uids = {namespace["metadata"]["uid"] for namespace in found}
                for uid in self._held_until.keys() - uids:
                    del self._held_until[uid]
                for namespace in found:
                    self._queue.add(namespace["metadata"]["name"])
            await asyncio.sleep(LOOK_SECONDS)

    def _on_remote_pod(self, old: CachedObject | None, new: CachedObject | None) -> None:
        if old is None and new is not None:
            self._pods[new.metadata.namespace] += 1
        elif old is not None and new is None:
            namespace = old.metadata.namespace
            self._pods[namespace] -= 1
            if not self._pods[namespace]:
                del self._pods[namespace]
                self._queue.add_after(namespace, EMPTIED_SECONDS)

    async def _reconcile(self, name: str) -> float | None:
        """Remove one if it's of no use; seconds until it may be."""
        if self._pods[name]:
            return None
        try:
            namespace = await self._remote.get(NAMESPACES, NamespacedName("", name))
            home_namespace = home_namespace_of(namespace, self._peering)
            if home_namespace is None or namespace["metadata"].get("deletionTimestamp"):
                return None
            origin = await self._read_origin(home_namespace)
            if origin is not None:
                return ENDING_SECONDS if origin["metadata"].get("deletionTimestamp") else None
            await self._remove(namespace, home_namespace)
        except (NotFoundError, ConflictError):
            logger.debug("remote namespace %s: gone already, or another one", name)
        except ForbiddenError as error:
            self._tell_rights(error)
        return None

    async def _read_origin(self, home_namespace: str) -> KubeObject | None:
        try:
            return await self._home.get(NAMESPACES, NamespacedName("", home_namespace))
        except NotFoundError:
            return None

    async def _remove(self, namespace: KubeObject, home_namespace: str) -> None:
        name, uid = namespace["metadata"]["name"], namespace["metadata"]["uid"]
        now = asyncio.get_running_loop().time()
        if now < self._held_until.get(uid, now):
            return
        kinds = await discover_kinds(self._remote)
        foreign = await remove_namespace(self._remote, name, kinds, self._peering, uid=uid)
        if foreign is not None:
            self._held_until[uid] = now + HELD_SECONDS
            logger.info(
                "%s: remote namespace left: home namespace %s is gone, but it holds %s,"
                " which isn't ours",
                name,
                home_namespace,
                foreign,
            )
            return
        self._namespaces.forget(name)
        logger.info("%s: remote namespace removed: home namespace %s is gone", name, home_namespace)

    def _tell_rights(self, error: ForbiddenError) -> None:
        if not self._told_rights:
            self._told_rights = True
            logger.info(
                "remote namespaces stay when their home namespaces go, as a right is missing"
                " (docs/rbac/remote-removal.yaml): %s",
                error.message,
            )
