"""Makes remote pods, and changes what the API lets change of them."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from provider.labels import HOME_POD_UID
from provider.peering import Peering, home_uid_of
from provider.pods.followed import FollowedPods
from provider.pods.namespaces import RemoteNamespaces
from provider.pods.refused import RefusedPods
from provider.reflection.dependents import Dependents
from provider.translation.changes import find_changes, is_placed_otherwise
from provider.translation.pod import TranslatedPod
from provider.translation.restarts import note_restarts
from vkubelet.errors import RefusedError, RetryError
from vkubelet.interface import PodRef
from vkubelet.kube.client import KubeClient, PatchType
from vkubelet.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NamespaceEndingError,
    NotFoundError,
)
from vkubelet.kube.objects import PODS, CachedObject, KubeObject, NamespacedName

logger = logging.getLogger(__name__)

_TOO_NEW = "error looking up service account"
"""Words of the API server on a namespace whose service account isn't made yet."""

# Refusals that end when there is more room, as below a quota; others as well, but that isn't known.
_MAY_PASS = frozenset({"RemotePodForbidden", "RemoteObjectForbidden"})


class Translate(Protocol):
    """Makes the remote pod of a home pod."""

    def __call__(self, node: str, pod: KubeObject, *, remote_namespace: str) -> TranslatedPod:
        """
        Translate for a virtual node.

        Raises:
            RefusedError: If the pod can't run there.
            RetryError: If the virtual node isn't known (any more).
        """


class RemotePodWriter:
    """
    Takes home pods to the remote cluster, one at a time by name.

    It answers when the API server has taken a request; what became of it shows in the pods that are
    followed.
    """

    def __init__(
        self,
        client: KubeClient,
        peering: Peering,
        namespaces: RemoteNamespaces,
        dependents: Dependents,
        followed: FollowedPods,
        *,
        translate: Translate,
        refused: RefusedPods,
        put_unwatched: Callable[[PodRef, KubeObject], None],
    ) -> None:
        """
        Say where and how; nothing happens before `apply`.

        Args:
            client: To the remote cluster.
            peering: Whose pods they are.
            namespaces: Makes remote namespaces.
            dependents: What pods need beside themselves.
            followed: The remote pods as they are known.
            translate: Makes a remote pod.
            refused: Is told what is forbidden, and what isn't any more.
            put_unwatched: Is told of a pod that is there, but not known yet.
        """
        self._client = client
        self._peering = peering
        self._namespaces = namespaces
        self._dependents = dependents
        self._followed = followed
        self._translate = translate
        self._refused = refused
        self._tell_unwatched = put_unwatched
        self._unseen: dict[NamespacedName, str] = {}  # versions that our patches made
        followed.add_handler(self._on_change)

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
        metadata = pod["metadata"]
        ref = PodRef(metadata["namespace"], metadata["name"], metadata["uid"])
        key = NamespacedName(self._namespaces.name(ref.namespace), ref.name)
        known = self._followed.get(key)
        existing: KubeObject | None
        if known is None:
            translated = self._translate(node, pod, remote_namespace=key.namespace)
            anchor = await self._namespaces.ensure(ref.namespace)
            translated.pod["metadata"]["ownerReferences"] = [anchor]
            try:
                missed = await self._dependents.prepare(pod, present=False)
                existing = await self._create(key, ref, note_restarts(translated.pod, pod))
            except RefusedError as error:
                if error.reason in _MAY_PASS:
                    self._refused.note_refused(ref, key.namespace)
                raise
            self._refused.note_made(ref)
        elif home_uid_of(known.metadata) == ref.uid:
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
        version, known = self._unseen.get(key), self._followed.get(key)
        if known is None or (
            version is not None and _is_as_new(known.metadata.resource_version, version)
        ):
            self._unseen.pop(key, None)

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
            if isinstance(error, NamespaceEndingError) or _TOO_NEW in error.message:
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
        if self._followed.get(key) is None:
            self._tell_unwatched(ref, pod)

    def _on_change(self, old: CachedObject | None, new: CachedObject | None) -> None:
        changed = new if new is not None else old
        if changed is not None and changed.metadata.key in self._unseen:
            self._forget_seen(changed.metadata.key)


def _is_as_new(version: str, other: str) -> bool:
    """Whether a resourceVersion is at least as new as another; they are numbers that grow."""
    if version.isdecimal() and other.isdecimal():
        return int(version) >= int(other)
    return version == other
