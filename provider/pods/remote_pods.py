"""Reflected pods in the remote cluster: creation, deletion, and the feed of their statuses."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import NoReturn, Protocol

from provider.labels import HOME_NAMESPACE, HOME_POD_UID, VIRTUAL_NODE
from provider.peering import Peering
from provider.pods.feed import StatusFeed
from provider.pods.followed import FollowedPods
from provider.pods.namespaces import RemoteNamespaces
from provider.reflection.dependents import Dependents
from provider.translation.changes import find_changes, is_placed_otherwise
from provider.translation.pod import TranslatedPod
from provider.translation.restarts import note_restarts, read_restarts
from provider.translation.status import is_unschedulable, read_observed_generation
from vkubelet.errors import RefusedError, RetryError
from vkubelet.interface import (
    Gone,
    PodEvent,
    PodRef,
    PodStatus,
    Reachable,
    StatusEvent,
    Synced,
    Unblocked,
    Unreachable,
)
from vkubelet.kube.client import KubeClient, PatchType
from vkubelet.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from vkubelet.kube.objects import PODS, CachedObject, KubeObject, NamespacedName, ObjectMeta

logger = logging.getLogger(__name__)

# The namespace ends, to be made anew; or it's so new that its service account isn't there yet.
_PASSING = ("is being terminated", "error looking up service account")


class Translate(Protocol):
    """Makes the remote pod of a home pod."""

    def __call__(self, node: str, pod: KubeObject, *, remote_namespace: str) -> TranslatedPod:
        """
        Translate for a virtual node.

        Raises:
            RefusedError: If the pod can't run there.
            RetryError: If the virtual node isn't known (any more).
        """


TranslateStatus = Callable[[KubeObject], KubeObject]
"""Makes the home status of a remote pod."""


class RemotePods:
    """
    The remote pods of one peering.

    `apply` and `delete` answer when the API server has taken the request; what became of it arrives
    by `watch_statuses`, from the Store that `run` keeps.

    Attributes:
        followed: The remote pods as they are known.
    """

    def __init__(
        self,
        client: KubeClient,
        peering: Peering,
        namespaces: RemoteNamespaces,
        dependents: Dependents,
        *,
        translate: Translate,
        translate_status: TranslateStatus,
        followed: Sequence[str] = (),
    ) -> None:
        """
        Say what to keep in step; `run` does it.

        Args:
            client: To the remote cluster.
            peering: Whose pods they are.
            namespaces: Makes remote namespaces.
            dependents: What pods need beside themselves.
            translate: Makes a remote pod.
            translate_status: Makes a home status.
            followed: Remote namespaces that are followed; none: the whole cluster.
        """
        self._client = client
        self._peering = peering
        self._namespaces = namespaces
        self._dependents = dependents
        self._translate = translate
        self._translate_status = translate_status
        self._feed = StatusFeed()
        self._unseen: dict[NamespacedName, str] = {}  # versions that our patches made
        self.followed = FollowedPods(
            client, label_selector=peering.label_selector, namespaces=followed
        )
        self.followed.add_handler(dependents.handle_remote_pod)
        self.followed.add_handler(self._on_change)
        dependents.tell_to(self.tell)

    async def run(self) -> NoReturn:
        """Keep the Store until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._wait_synced(), name="remote pods synced")
            await self.followed.run()

    async def _wait_synced(self) -> None:
        await self.followed.wait_synced()
        self._dependents.start()
        self._feed.wake()

    def find(self, ref: PodRef) -> NamespacedName | None:
        """Find the remote pod of a home pod; None if there is none (yet)."""
        key = self._remote_key(ref)
        known = self.followed.get(key)
        return key if known is not None and _home_uid(known.metadata) == ref.uid else None

    async def apply(self, node: str, pod: KubeObject) -> Sequence[str]:
        """
        Create the remote pod of a home pod, or change what the API lets change of it.

        One that still waits for a node, but not for those that it may run on now, is deleted: it's
        made anew when it's gone.

        Raises:
            RefusedError: If it can't be made as it is.
            RetryError: If something has to end first.
            KubeError: If the API server can't do it now.
        """
        ref = home_pod_ref(pod)
        key = self._remote_key(ref)
        known = self.followed.get(key)
        existing: KubeObject | None
        if known is None:
            translated = self._translate(node, pod, remote_namespace=key.namespace)
            anchor = await self._namespaces.ensure(ref.namespace)
            translated.pod["metadata"]["ownerReferences"] = [anchor]
            missed = await self._dependents.prepare(pod, present=False)
            existing = await self._create(key, ref, note_restarts(translated.pod, pod))
        elif _home_uid(known.metadata) == ref.uid:
            missed = await self._dependents.prepare(pod, present=True)
            translated = self._translate(node, pod, remote_namespace=key.namespace)
            existing = await self._look_again(key, known)
        else:
            raise RetryError(f"remote pod {key} of an earlier pod of that name isn't gone yet")
        if existing is not None:
            await self._change(key, existing, translated)
        return (*translated.warnings, *missed)

    async def _change(
        self, key: NamespacedName, existing: KubeObject, translated: TranslatedPod
    ) -> None:
        if is_placed_otherwise(existing, translated.pod):
            logger.info("%s: the nodes that it may run on have changed: made anew", key)
            uid: str = existing["metadata"]["uid"]
            with suppress(NotFoundError, ConflictError):
                await self._client.delete(PODS, key, uid=uid, grace_period_seconds=0)
            return
        changes = find_changes(existing, translated.pod, translated.ephemeral_containers)
        refusals: list[RefusedError] = []
        # The pod itself last: it tells by which generation of the home pod all of this was done.
        for subresource, patch in (
            ("ephemeralcontainers", changes.ephemeral_containers),
            ("resize", changes.resize),
            ("", changes.pod),
        ):
            wanted = patch
            if refusals and patch is changes.pod:
                wanted = changes.pod_without_generation
            if wanted is None:
                continue
            try:
                await self._patch(key, wanted, subresource)
            except RefusedError as error:  # the others may be taken all the same
                refusals.append(error)
        if refusals:
            messages = "; ".join(refusal.message for refusal in refusals)
            raise RefusedError(refusals[0].reason, messages) from refusals[0]

    async def _look_again(self, key: NamespacedName, known: CachedObject) -> KubeObject:
        """A remote pod as the Store has it, or from the API server if our own change is newer."""
        if key not in self._unseen:
            return known.decode()
        try:
            existing = await self._client.get(PODS, key)
        except NotFoundError as error:
            raise RetryError(f"remote pod {key} is about to be gone") from error
        if existing["metadata"]["uid"] != known.metadata.uid:
            raise RetryError(f"remote pod {key} is another one by now")
        return existing

    async def _patch(self, key: NamespacedName, patch: KubeObject, subresource: str) -> None:
        try:
            answer = await self._client.patch(
                PODS, key, patch, PatchType.STRATEGIC, subresource=subresource
            )
        except NotFoundError as error:
            raise RetryError(f"remote pod {key} is gone, or can't do that: {error}") from error
        except (InvalidError, ForbiddenError) as error:
            what = f"its {subresource}" if subresource else "it"
            raise RefusedError(
                "RemotePodChangeRefused", f"{what} can't be changed as at home: {error.message}"
            ) from error
        self._unseen[key] = answer["metadata"]["resourceVersion"]
        self._forget_seen(key)
        logger.info("remote pod %s: changed as at home (%s)", key, subresource or "itself")

    def _forget_seen(self, key: NamespacedName) -> None:
        """Trust the Store again once it has what our last patch made."""
        version, known = self._unseen.get(key), self.followed.get(key)
        if known is None or (
            version is not None and _is_as_new(known.metadata.resource_version, version)
        ):
            self._unseen.pop(key, None)

    def handle_selection(self, node: str) -> None:
        """Have pods looked at again that wait for nodes behind a virtual node, which changed."""
        for known in self.followed:
            metadata = known.metadata
            ref = _ref_of_remote(metadata)
            if ref is None or metadata.annotations.get(VIRTUAL_NODE) != node:
                continue
            if not known.decode()["spec"].get("nodeName"):
                self.tell(Unblocked(ref))

    async def _create(
        self, key: NamespacedName, ref: PodRef, body: KubeObject
    ) -> KubeObject | None:
        """Create a pod; returns the one that an earlier, unanswered try created, if any."""
        try:
            created = await self._client.create(PODS, body, namespace=key.namespace)
        except AlreadyExistsError:
            return await self._find_existing(key, ref)
        except NotFoundError as error:
            self._namespaces.forget(key.namespace)
            raise RetryError(
                f"remote namespace {key.namespace} is gone: {error.message}"
            ) from error
        except InvalidError as error:
            raise RefusedError("RemotePodInvalid", error.message) from error
        except ForbiddenError as error:
            self._namespaces.forget(key.namespace)
            if any(words in error.message for words in _PASSING):
                raise RetryError(error.message) from error
            raise RefusedError("RemotePodForbidden", error.message) from error
        else:
            logger.info("%s: created as remote pod %s", ref, key)
            self._put_unwatched(key, ref, created)
            return None

    async def _find_existing(self, key: NamespacedName, ref: PodRef) -> KubeObject:
        """Accept a pod that an earlier, unanswered try created; refuse anybody else's."""
        try:
            existing = await self._client.get(PODS, key)
        except NotFoundError as error:
            raise RetryError(f"remote pod {key} comes and goes") from error
        labels = existing["metadata"].get("labels", {})
        if not self._peering.owns_labels(labels):
            raise RefusedError(
                "RemotePodNotOurs", f"remote pod {key} exists and is not of this peering"
            )
        if labels.get(HOME_POD_UID) != ref.uid:
            raise RetryError(f"remote pod {key} of an earlier pod of that name isn't gone yet")
        self._put_unwatched(key, ref, existing)
        return existing

    def _put_unwatched(self, key: NamespacedName, ref: PodRef, pod: KubeObject) -> None:
        """Make a pod known before the watch tells of it: its deletion may be asked for first."""
        if self.followed.get(key) is None:
            self._feed.put(ref, pod)

    async def delete(self, ref: PodRef, *, grace_period_seconds: int | None) -> None:
        """
        Delete the remote pod of a home pod; another pod of that name is left alone.

        Raises:
            KubeError: If the API server can't do it now.
        """
        key = self._remote_key(ref)
        known = self.followed.get(key)
        if known is not None and _home_uid(known.metadata) == ref.uid:
            uid = known.metadata.uid
        else:
            uid = await self._find_uid(key, ref)
        if not uid:
            self._feed.put_gone(ref)
            return
        try:
            await self._client.delete(PODS, key, uid=uid, grace_period_seconds=grace_period_seconds)
        except (NotFoundError, ConflictError):  # gone, or another pod's turn: the watch tells
            if self.followed.get(key) is None:
                self._feed.put_gone(ref)

    async def _find_uid(self, key: NamespacedName, ref: PodRef) -> str:
        """Look at the API server for a pod that the Store doesn't know (yet)."""
        try:
            existing = await self._client.get(PODS, key)
        except NotFoundError:
            return ""
        metadata = existing["metadata"]
        labels = metadata.get("labels", {})
        ours = self._peering.owns_labels(labels) and labels.get(HOME_POD_UID) == ref.uid
        return str(metadata["uid"]) if ours else ""

    def set_trouble(self, trouble: str | None) -> None:
        """Tell the feed that the remote API can't be reached, and why; None: that it can."""
        self._feed.put_note(Reachable() if trouble is None else Unreachable(trouble))

    def tell(self, event: StatusEvent) -> None:
        """Tell the feed of something beside statuses."""
        if isinstance(event, PodEvent | Unblocked):
            self._feed.put_told(event)

    async def watch_statuses(self) -> AsyncIterator[StatusEvent]:
        """Yield statuses as `Provider.watch_statuses` does; for one consumer."""
        told_synced = False
        while True:
            synced = self.followed.synced
            for note in self._feed.take_notes():
                yield note
            for ref, pod in self._feed.take():
                if pod is None:
                    yield Gone(ref)
                else:
                    whole = pod.decode() if isinstance(pod, CachedObject) else pod
                    yield self._build_status(ref, whole)
            for told in self._feed.take_told():
                yield told
            if synced and not told_synced:
                told_synced = True
                yield Synced()
            await self._feed.wait()

    def _build_status(self, ref: PodRef, pod: KubeObject) -> PodStatus:
        metadata = pod["metadata"]
        return PodStatus(
            ref=ref,
            node=metadata.get("annotations", {}).get(VIRTUAL_NODE, ""),
            status=self._translate_status(pod),
            deletion_timestamp=metadata.get("deletionTimestamp"),
            unschedulable=is_unschedulable(pod),
            restarts=read_restarts(metadata),
            generation=read_observed_generation(pod),
        )

    def _on_change(self, old: CachedObject | None, new: CachedObject | None) -> None:
        changed = new if new is not None else old
        if changed is not None and changed.metadata.key in self._unseen:
            self._forget_seen(changed.metadata.key)
        if old is not None and (new is None or _home_uid(old.metadata) != _home_uid(new.metadata)):
            ref = _ref_of_remote(old.metadata)
            if ref is not None:
                if not old.metadata.deletion_timestamp:  # nobody here asked: the anchor may be gone
                    self._namespaces.forget(old.metadata.namespace)
                self._feed.put_gone(ref)
        if new is not None:
            ref = _ref_of_remote(new.metadata)
            if ref is None:
                logger.warning("remote pod %s has our labels but no home pod", new.metadata.key)
            else:
                self._feed.put(ref, new)

    def _remote_key(self, ref: PodRef) -> NamespacedName:
        return NamespacedName(self._namespaces.name(ref.namespace), ref.name)


def home_pod_ref(pod: KubeObject) -> PodRef:
    """Name a home pod."""
    metadata = pod["metadata"]
    return PodRef(metadata["namespace"], metadata["name"], metadata["uid"])


def _home_uid(metadata: ObjectMeta) -> str:
    return metadata.labels.get(HOME_POD_UID, "")


def _ref_of_remote(metadata: ObjectMeta) -> PodRef | None:
    """Name the home pod of a remote pod, as its labels and annotations tell."""
    uid = _home_uid(metadata)
    namespace = metadata.annotations.get(HOME_NAMESPACE, "")
    return PodRef(namespace, metadata.name, uid) if uid and namespace else None


def _is_as_new(version: str, other: str) -> bool:
    """Whether a resourceVersion is at least as new as another; they are numbers that grow."""
    if version.isdecimal() and other.isdecimal():
        return int(version) >= int(other)
    return version == other
