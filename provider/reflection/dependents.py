"""
Keeps what reflected pods need beside themselves: there before a pod, up to date, gone after it.

Level-triggered: which pods there are and what they need is read off the remote pods, what home has
off one watch a kind in each namespace that needs it, what is there off our objects.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NoReturn

from provider.labels import DEPENDENT, HOME_NAME, HOME_NAMESPACE, HOME_POD_UID
from provider.peering import Peering, home_pod_of, home_uid_of
from provider.reflection.content import RESOURCES, Content, decode_source
from provider.reflection.copies import COPY, TOKEN, RemoteCopies, RemotePlaces, build_metadata
from provider.reflection.needs import (
    DependentKey,
    Needs,
    written_needs_of,
)
from provider.reflection.tokens import PodTokens
from provider.reflection.watches import Watches
from provider.translation.dependents import (
    Dependent,
    DependentNames,
    find_dependents,
    read_dependents,
)
from provider.translation.tokens import ApiAccess, find_token_sources
from vkubelet.errors import RefusedError, RetryError
from vkubelet.interface import PodEvent, PodRef, StatusEvent, Unblocked
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ForbiddenError
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import CachedObject, KubeObject, NamespacedName
from vkubelet.kube.workqueue import WorkQueue
from vkubelet.pods.home import HomePods
from vkubelet.supervision import run_component
from vkubelet.times import utc_now

logger = logging.getLogger(__name__)

LINGER_SECONDS = 30.0
"""How long what nobody needs is kept: a pod's successor is often about to come."""

KNOW_SECONDS = 10.0
"""How long a pod waits for the first look at a namespace."""

REFUSED_SECONDS = 60.0
WORKERS = 20

REASON_MISSING_RIGHT = "MissingRight"
_RIGHTS_FILE = "docs/rbac/home-namespace.yaml"

Tell = Callable[[StatusEvent], None]
"""Puts something into the feed of statuses."""


class Dependents:
    """The ConfigMaps, Secrets and tokens of one peering."""

    def __init__(
        self,
        home: KubeClient,
        remote: KubeClient,
        peering: Peering,
        places: RemotePlaces,
        *,
        api_access: ApiAccess = ApiAccess.NONE,
        namespaces: tuple[str, ...] = (),
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """
        Say whose; `run` keeps them.

        Args:
            home: Client to the home cluster.
            remote: Client to the remote cluster.
            peering: Whose copies they are.
            places: Remote namespaces.
            api_access: Whether tokens of home are delivered.
            namespaces: Remote namespaces that are followed; none: the whole cluster.
            now: The wall clock.
        """
        self._home = home
        self._peering = peering
        self._places = places
        self._access = api_access
        self._now = now
        self._tell: Tell = _tell_nobody
        self._home_pods: HomePods | None = None
        self._queue: WorkQueue[DependentKey] = WorkQueue("dependents")
        self._unneeded_since: dict[DependentKey, float] = {}
        self._blocked: dict[NamespacedName, tuple[PodRef, frozenset[DependentKey]]] = {}
        self._started = False
        # Striped: one lock a key would have to be forgotten again.
        self._locks = [asyncio.Lock() for _ in range(64)]
        self._needs = Needs(self._on_need)
        self._sources: Watches[tuple[str, str], Content] = Watches(
            "home dependents", self._build_source, self._on_source_settled
        )
        self.copies = RemoteCopies(remote, peering, namespaces=namespaces)
        self.copies.add_handler(self._on_copy)
        self._tokens = PodTokens(
            home,
            self.copies,
            peering,
            places,
            enabled=api_access is ApiAccess.HOME,
            has_pod=self._needs.has_pod,
            find_home_pod=self._find_home_pod,
            on_provided=self._unblock,
            now=now,
        )

    def tell_to(self, tell: Tell) -> None:
        """Say who is told that a pod may be offered again, and of events; before `run`."""
        self._tell = tell

    def follow_home_pods(self, pods: HomePods) -> None:
        """Take the view of the home pods on our nodes; before `run`."""
        self._home_pods = pods
        pods.add_handler(self._on_home_pod)

    def handle_remote_pod(self, old: CachedObject | None, new: CachedObject | None) -> None:
        """Take in that a remote pod came, changed or went; a handler of their informer."""
        before = None if old is None else old.metadata
        after = None if new is None else new.metadata
        if before is not None and (after is None or home_uid_of(before) != home_uid_of(after)):
            self._needs.drop_present(home_uid_of(before))
            ref = home_pod_of(before)
            if ref is not None:
                self._tokens.handle_gone(ref, LINGER_SECONDS)
        if after is None or (ref := home_pod_of(after)) is None:
            return
        if before is not None and written_needs_of(before) == written_needs_of(after):
            return
        pairs = read_dependents(written_needs_of(after)[1])
        keys = [DependentKey(kind, ref.namespace, name) for kind, name in pairs]
        self._needs.set_present(ref, keys)
        self._blocked.pop(ref.key, None)

    async def run(self) -> NoReturn:
        """Keep them until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, run in (
                ("remote copies", self.copies.run),
                ("home dependents", self._sources.run),
                ("tokens", self._tokens.run),
            ):
                group.create_task(run_component(name, run), name=name)
            await self.copies.wait_synced()
            await self._queue.run(self._reconcile, workers=WORKERS)
        raise AssertionError("the queue runs until it's cancelled")

    def start(self) -> None:
        """Begin to remove what nobody needs: the remote pods are all known now."""
        self._started = True
        for kind, content in self.copies.all():
            self._on_copy(kind, content)

    async def prepare(self, pod: KubeObject, *, present: bool) -> list[str]:
        """
        Have there what a pod needs, before it's made or while it runs.

        Args:
            pod: The home pod.
            present: Whether the remote pod is there; then nothing that is missing holds it up.

        Returns:
            Warnings, a sentence each.

        Raises:
            RefusedError: If something is missing, or can't be copied; it's told when that changes.
            RetryError: If it can't be known yet.
            KubeError: If an API server can't do it now.
        """
        metadata, spec = pod["metadata"], pod["spec"]
        ref = PodRef(metadata["namespace"], metadata["name"], metadata["uid"])
        dependents = find_dependents(spec, self._access)
        wants_tokens = self._access is ApiAccess.HOME and any(find_token_sources(spec))
        if not dependents and not wants_tokens:
            return []
        keys = {DependentKey(item.kind, ref.namespace, item.name): item for item in dependents}
        if not present:
            self._check_alive(ref)
            self._needs.expect(ref, keys)
        else:
            self._needs.extend_present(ref, keys)
        try:
            owner = await self._places.ensure(ref.namespace)
            warnings = await self._provide(ref, keys, owner, present=present)
            if wants_tokens:
                await self._tokens.provide(pod, owner)
        except RefusedError:
            if not present:
                self._blocked[ref.key] = ref, frozenset(keys)
            raise
        self._blocked.pop(ref.key, None)
        return warnings

    async def _provide(
        self,
        ref: PodRef,
        keys: dict[DependentKey, Dependent],
        owner: KubeObject,
        *,
        present: bool,
    ) -> list[str]:
        try:
            async with asyncio.timeout(KNOW_SECONDS):
                await self.copies.wait_synced()
        except TimeoutError:
            raise RetryError("copies in the remote cluster aren't known yet") from None
        for scope in dict.fromkeys(key.scope for key in keys):
            await self._know(scope, [item for key, item in keys.items() if key.scope == scope])
        missing = [key for key in keys if self._source(key) is None]
        required = [keys[key] for key in missing if keys[key].required]
        if required and not present:
            raise RefusedError(
                f"Mandatory{required[0].kind}NotFound",
                "; ".join(f"{item} not found" for item in required),
            )
        for key in keys:
            async with self._locks[hash(key) % len(self._locks)]:
                await self._bring(key, owner)
        if not present:
            for key in missing:
                self._tell_skipped(ref, keys[key])
        return [
            f"image pull {keys[key]} not found: pulling images may not succeed"
            for key in missing
            if keys[key].pulls
        ]

    async def _know(self, scope: tuple[str, str], wanted: Iterable[Dependent]) -> None:
        """Wait until what home has of a kind in a namespace is known, as these are wanted."""
        kind, namespace = scope
        plural = RESOURCES[kind].plural
        watch = await self._sources.wait_settled(scope, timeout_seconds=KNOW_SECONDS)
        if watch is None:
            raise RetryError(f"{plural} of home namespace {namespace} aren't known yet")
        if isinstance(watch.trouble, ForbiddenError):
            raise RefusedError(
                REASON_MISSING_RIGHT,
                f"{', '.join(map(str, wanted))} can't be read: the right to get, list and watch"
                f" {plural} in home namespace {namespace} is missing ({_RIGHTS_FILE})",
            )
        if not watch.informer.synced:
            raise RetryError(f"{plural} of home namespace {namespace}: {watch.trouble}")

    def _check_alive(self, ref: PodRef) -> None:
        """What is noted for a pod is forgotten when it goes: it mustn't be gone already."""
        if self._find_home_pod(ref) is None:
            raise RetryError(f"home pod {ref} is gone")

    def _find_home_pod(self, ref: PodRef) -> KubeObject | None:
        pod = None if self._home_pods is None else self._home_pods.get(ref.key)
        return pod.decode() if pod is not None and pod.metadata.uid == ref.uid else None

    async def _bring(self, key: DependentKey, owner: KubeObject) -> None:
        """Make the copy be as home has it, also absent."""
        source, target = self._source(key), self._target(key)
        if source is None:
            known = self.copies.get(key.kind, target)
            if known is not None:
                logger.info("%s: gone at home, so its copy is removed", key)
                await self.copies.delete(key.kind, known)
            return
        annotations = {HOME_NAMESPACE: key.namespace, HOME_NAME: key.name}
        metadata = build_metadata(self._peering, owner, role=COPY, annotations=annotations)
        await self.copies.bring(key.kind, target, source, metadata)

    async def _reconcile(self, key: DependentKey) -> float | None:
        """Take a copy one step towards what it should be."""
        if not self._started:
            return None
        async with self._locks[hash(key) % len(self._locks)]:
            if not self._needs.is_needed(key):
                return await self._retire(key)
            known = self.copies.get(key.kind, self._target(key))
            if known is None and not self._needs.is_used(key):
                return None  # of a pod that isn't there yet: made with it
            watch = self._sources.get(key.scope)
            if watch is None or not watch.informer.synced or watch.trouble is not None:
                return None  # it's looked at again when that is known
            try:
                await self._bring(key, await self._places.ensure(key.namespace))
            except RefusedError as error:
                logger.warning("%s: can't be copied: %s", key, error)
                return REFUSED_SECONDS
        return None

    async def _retire(self, key: DependentKey) -> float | None:
        """Remove what has been needed by nobody for a while."""
        now = asyncio.get_running_loop().time()
        since = self._unneeded_since.setdefault(key, now)
        if now < since + LINGER_SECONDS:
            return since + LINGER_SECONDS - now
        known = self.copies.get(key.kind, self._target(key))
        if known is not None:
            await self.copies.delete(key.kind, known)
            logger.info("%s: copy removed, no pod needs it any more", key)
        self._unneeded_since.pop(key, None)
        if not self._needs.uses_scope(key.scope):
            self._sources.close(key.scope)
        return None

    def _source(self, key: DependentKey) -> Content | None:
        watch = self._sources.get(key.scope)
        name = NamespacedName(key.namespace, key.name)
        return None if watch is None else watch.informer.store.get(name)

    def _target(self, key: DependentKey) -> NamespacedName:
        peering = self._peering
        names = DependentNames(peering.home_uid, peering.remote_cluster, key.namespace)
        return NamespacedName(self._places.name(key.namespace), names.copy(key.kind, key.name))

    def _build_source(self, scope: tuple[str, str]) -> Informer[Content]:
        kind, namespace = scope

        def on_change(old: Content | None, new: Content | None) -> None:
            content = new if new is not None else old
            if content is None:
                return
            key = DependentKey(kind, namespace, content.metadata.name)
            if self._needs.is_needed(key):
                self._queue.add(key)
                if old is None:
                    self._unblock_where(lambda keys: key in keys)

        informer = Informer(self._home, RESOURCES[kind], decode_source, namespace=namespace)
        informer.add_handler(on_change)
        return informer

    def _on_source_settled(self, scope: tuple[str, str]) -> None:
        for key in self._needs.in_scope(scope):
            self._queue.add(key)
        self._unblock_where(lambda keys: any(key.scope == scope for key in keys))

    def _on_need(self, key: DependentKey) -> None:
        if self._needs.is_needed(key):
            self._unneeded_since.pop(key, None)
            self._sources.open(key.scope)
        self._queue.add(key)

    def _on_copy(self, kind: str, content: Content) -> None:
        metadata = content.metadata
        namespace = metadata.annotations.get(HOME_NAMESPACE, "")
        name = metadata.annotations.get(HOME_NAME, "")
        if not namespace or not name:
            return
        if metadata.labels.get(DEPENDENT) == TOKEN:
            uid = metadata.labels.get(HOME_POD_UID, "")
            self._tokens.look_at(PodRef(namespace, name, uid), LINGER_SECONDS)
        else:
            self._queue.add(DependentKey(kind, namespace, name))

    def _on_home_pod(self, key: NamespacedName) -> None:
        pod = None if self._home_pods is None else self._home_pods.get(key)
        uid = "" if pod is None else pod.metadata.uid
        self._needs.keep_expected(key, uid)
        if key in self._blocked and self._blocked[key][0].uid != uid:
            del self._blocked[key]

    def _unblock_where(self, concerned: Callable[[frozenset[DependentKey]], bool]) -> None:
        """Have the pods offered again that were held up, and need something of that."""
        for ref, keys in list(self._blocked.values()):
            if concerned(keys):
                self._unblock(ref)

    def _unblock(self, ref: PodRef) -> None:
        if self._blocked.pop(ref.key, None) is not None:
            self._tell(Unblocked(ref))

    def _tell_skipped(self, ref: PodRef, dependent: Dependent) -> None:
        if dependent.pulls:
            return
        now = self._now()
        self._tell(
            PodEvent(
                ref=ref,
                identity=f"skipped/{dependent.kind}/{dependent.name}",
                type="Warning",
                reason=f"Optional{dependent.kind}NotFound",
                message=f"{dependent} not found, and optional: the pod starts without it",
                count=1,
                first_time=now,
                last_time=now,
                component="vkubelet",
            )
        )


def _tell_nobody(event: StatusEvent) -> None:
    logger.debug("nobody to tell of %s", event)
