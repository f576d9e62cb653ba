"""Tokens for home's API server: asked for a home pod, delivered in Secrets, rotated."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NoReturn

from provider.labels import HOME_NAME, HOME_NAMESPACE, HOME_POD_UID, TOKEN_ROTATION
from provider.peering import Peering
from provider.reflection.content import Content
from provider.reflection.copies import TOKEN, RemoteCopies, RemotePlaces, build_metadata
from provider.translation.dependents import DependentNames
from provider.translation.references import SECRET
from provider.translation.tokens import TokenSource, find_token_sources
from vkubelet.errors import RefusedError
from vkubelet.interface import PodRef
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ForbiddenError, InvalidError, NotFoundError
from vkubelet.kube.objects import SERVICE_ACCOUNTS, KubeObject, NamespacedName
from vkubelet.kube.workqueue import WorkQueue
from vkubelet.times import format_time, parse_time

logger = logging.getLogger(__name__)

ROTATE_AT = 0.8
"""As the kubelet: the part of its life after which a token is replaced."""

MAX_AGE = timedelta(hours=24)
"""As the kubelet: a token is replaced after that, however long it would live."""

REFUSED_SECONDS = 60.0
WORKERS = 10
REASON_TOKEN = "ServiceAccountTokenFailed"  # noqa: S105 - a reason, no secret


class PodTokens:
    """The tokens of reflected pods; a restart finds them again, with the time of their rotation."""

    def __init__(
        self,
        home: KubeClient,
        copies: RemoteCopies,
        peering: Peering,
        places: RemotePlaces,
        *,
        enabled: bool,
        has_pod: Callable[[str], bool],
        find_home_pod: Callable[[PodRef], KubeObject | None],
        on_provided: Callable[[PodRef], None],
        now: Callable[[], datetime],
    ) -> None:
        """
        Say for whom; `run` rotates and removes them.

        Args:
            home: Client to the home cluster.
            copies: Where they are delivered.
            peering: Whose they are.
            places: Remote namespaces.
            enabled: Whether tokens are delivered; if not, those of an earlier process are removed.
            has_pod: Whether a pod of that UID is there, or about to be.
            find_home_pod: Finds a home pod.
            on_provided: Called when a pod has got all of its tokens after a first failure.
            now: The wall clock.
        """
        self._home = home
        self._copies = copies
        self._peering = peering
        self._places = places
        self._enabled = enabled
        self._has_pod = has_pod
        self._find_home_pod = find_home_pod
        self._on_provided = on_provided
        self._now = now
        self._queue: WorkQueue[PodRef] = WorkQueue("tokens")
        # Striped: what a pod's first token sets off mustn't ask for the others once more.
        self._locks = [asyncio.Lock() for _ in range(64)]

    async def run(self) -> NoReturn:
        """Rotate and remove until cancelled."""
        await self._copies.wait_synced()
        await self._queue.run(self._reconcile, workers=WORKERS)

    def look_at(self, ref: PodRef, linger_seconds: float) -> None:
        """Have the tokens of a pod looked at: at once, or later if it seems to be gone."""
        self._queue.add_after(ref, 0 if self._has_pod(ref.uid) else linger_seconds)

    def handle_gone(self, ref: PodRef, linger_seconds: float) -> None:
        """Remove the tokens of a pod that is gone, unless it comes again."""
        if self._copies.of_pod(SECRET, ref.uid):
            self._queue.add_after(ref, linger_seconds)

    async def provide(self, pod: KubeObject, owner: KubeObject) -> None:
        """
        Have all tokens there that a pod wants, and none that is due to be replaced.

        Raises:
            RefusedError: If home doesn't give one; it's asked again after a while.
            KubeError: If an API server can't do it now.
        """
        metadata = pod["metadata"]
        ref = PodRef(metadata["namespace"], metadata["name"], metadata["uid"])
        try:
            async with self._locks[hash(ref.uid) % len(self._locks)]:
                soonest = await self._bring_all(ref, pod, owner)
        except RefusedError:
            self._queue.add_after(ref, REFUSED_SECONDS)
            raise
        self._queue.add_after(ref, max(1.0, (soonest - self._now()).total_seconds()))

    async def _bring_all(self, ref: PodRef, pod: KubeObject, owner: KubeObject) -> datetime:
        """Bring the tokens of a pod; returns when the first is to be replaced."""
        namespace = self._places.name(ref.namespace)
        names = DependentNames(self._peering.home_uid, self._peering.remote_cluster, ref.namespace)
        soonest = self._now() + MAX_AGE
        for source in find_token_sources(pod["spec"]):
            name = names.token(ref.uid, source.volume, source.index)
            key = NamespacedName(namespace, name)
            due = _rotation_of(self._copies.get(SECRET, key))
            if due is None or due <= self._now():
                due = await self._issue(ref, pod["spec"], source, key, owner)
            soonest = min(soonest, due)
        return soonest

    async def _issue(
        self,
        ref: PodRef,
        spec: KubeObject,
        source: TokenSource,
        key: NamespacedName,
        owner: KubeObject,
    ) -> datetime:
        """Ask for a token and deliver it; returns when it's to be replaced."""
        account = spec.get("serviceAccountName") or "default"
        asked_at = self._now()
        status = await self._request(ref, account, source)
        expires = parse_time(status.get("expirationTimestamp")) or asked_at + timedelta(
            seconds=source.expiration_seconds
        )
        due = min(asked_at + ROTATE_AT * (expires - asked_at), asked_at + MAX_AGE)
        metadata = build_metadata(
            self._peering,
            owner,
            role=TOKEN,
            labels={HOME_POD_UID: ref.uid},
            annotations={
                HOME_NAMESPACE: ref.namespace,
                HOME_NAME: ref.name,
                TOKEN_ROTATION: format_time(due),
            },
        )
        await self._copies.put_token(key, status["token"], metadata)
        return due

    async def _request(self, ref: PodRef, account: str, source: TokenSource) -> dict[str, Any]:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [source.audience] if source.audience else [],
                "expirationSeconds": source.expiration_seconds,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": ref.name,
                    "uid": ref.uid,
                },
            },
        }
        try:
            answer = await self._home.create(
                SERVICE_ACCOUNTS, body, namespace=ref.namespace, name=account, subresource="token"
            )
        except ForbiddenError as error:
            raise RefusedError(
                "MissingRight",
                f"the right to create serviceaccounts/token in home namespace {ref.namespace} is"
                " missing (docs/rbac/home-namespace.yaml)",
            ) from error
        except (NotFoundError, InvalidError) as error:
            raise RefusedError(
                REASON_TOKEN,
                f"no token for volume {source.volume!r}, service account {account}: "
                f"{error.message}",
            ) from error
        status: dict[str, Any] = answer["status"]
        return status

    async def _reconcile(self, ref: PodRef) -> float | None:
        """Replace the tokens of a pod that are due; remove them when it's gone."""
        if not self._enabled or not self._has_pod(ref.uid):
            for content in self._copies.of_pod(SECRET, ref.uid):
                await self._copies.delete(SECRET, content)
            return None
        pod = self._find_home_pod(ref)
        if pod is None:
            return None  # ending: its tokens are worth nothing at home any more
        try:
            owner = await self._places.ensure(ref.namespace)
        except RefusedError as error:
            logger.warning("%s: tokens aren't renewed: %s", ref, error)
            return REFUSED_SECONDS
        try:
            await self.provide(pod, owner)
        except RefusedError as error:
            logger.warning("%s: tokens aren't renewed: %s", ref, error)
            return None  # asked again by `provide`
        self._on_provided(ref)
        return None


def _rotation_of(content: Content | None) -> datetime | None:
    """When a token is to be replaced, None if it isn't there."""
    if content is None:
        return None
    return parse_time(content.metadata.annotations.get(TOKEN_ROTATION))
