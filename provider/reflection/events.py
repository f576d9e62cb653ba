"""Events on remote pods, brought home: what the kubelet and the controllers over there say."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NoReturn

import msgspec

from provider.labels import HOME_NAMESPACE, HOME_POD_UID
from provider.reflection.watches import Watches
from provider.translation.messages import CopiedNames, read_copied_names
from vkubelet.interface import PodEvent, PodRef
from vkubelet.kube.client import KubeClient
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import EVENTS, CachedObject, ObjectMeta
from vkubelet.pods.home import HomePods
from vkubelet.supervision import run_component
from vkubelet.times import parse_time, utc_now

logger = logging.getLogger(__name__)

MAX_AGE = timedelta(minutes=10)
"""What is older when a watch begins has been told by an earlier process, or is of no use now."""

IDLE_SECONDS = 60.0
"""How long a namespace is watched after its last pod."""

COMPONENTS = frozenset(
    {
        "kubelet",
        "vkubelet",
        "process-nodes",
        "controllermanager",
        "kube-controller-manager",
        "cluster-autoscaler",
        "karpenter",
        "descheduler",
    }
)
COMPONENT_SUFFIXES = ("-scheduler", "-controller")
"""Whose events are of interest at home: who places, runs and ends pods."""

_BY_POD = "pod"


class _Involved(msgspec.Struct, frozen=True):
    uid: str = ""


class _Source(msgspec.Struct, frozen=True):
    component: str = ""
    host: str = ""


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    count: int = 0
    last_observed_time: str | None = None


class RemoteEvent(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The part of an Event that is brought home."""

    metadata: ObjectMeta
    involved_object: _Involved = _Involved()
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None
    source: _Source = _Source()
    reporting_component: str = ""
    reporting_instance: str = ""

    @property
    def component(self) -> str:
        """Who saw it."""
        return self.source.component or self.reporting_component

    @property
    def is_wanted(self) -> bool:
        """Whether its component is one whose events are brought home."""
        return self.component in COMPONENTS or self.component.endswith(COMPONENT_SUFFIXES)

    def times(self) -> tuple[datetime, datetime] | None:
        """When it happened first and last, however it was written; None if that isn't told."""
        series = self.series or _Series()
        made = self.event_time or self.metadata.creation_timestamp
        first = parse_time(self.first_timestamp or made)
        last = parse_time(series.last_observed_time or self.last_timestamp or made)
        return (first, last) if first is not None and last is not None else None

    def build(self, ref: PodRef, names: CopiedNames | None) -> PodEvent | None:
        """Build what is shown on the home pod, with the names that home knows."""
        times = self.times()
        if times is None:
            return None
        return PodEvent(
            ref=ref,
            identity=self.metadata.uid,
            type=self.type or "Normal",
            reason=self.reason,
            message=self.message if names is None else names.restore(self.message),
            count=(self.series.count if self.series else 0) or self.count or 1,
            first_time=times[0],
            last_time=times[1],
            component=self.component,
            host=self.source.host or self.reporting_instance,
        )


decode_event = msgspec.json.Decoder(RemoteEvent).decode


class RemoteEvents:
    """Follows events in the namespaces that have pods of ours, and tells those on these pods."""

    def __init__(
        self,
        client: KubeClient,
        tell: Callable[[PodEvent], None],
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client = client
        self._tell = tell
        self._now = now
        self._refs: dict[str, tuple[PodRef, CopiedNames | None]] = {}
        self._pods: dict[str, int] = {}
        self._idle_since: dict[str, float] = {}
        self._home_pods: HomePods | None = None
        self._watches: Watches[str, RemoteEvent] = Watches("remote events", self._build_informer)

    def follow_home_pods(self, pods: HomePods) -> None:
        """Take the view of the home pods: events are shown once these are known; before `run`."""
        self._home_pods = pods

    def handle_remote_pod(self, old: CachedObject | None, new: CachedObject | None) -> None:
        """Take in that a remote pod came or went; a handler of their informer."""
        before = None if old is None else old.metadata
        after = None if new is None else new.metadata
        if before is not None and after is not None and before.uid == after.uid:
            return
        if before is not None and self._refs.pop(before.uid, None) is not None:
            self._leave(before.namespace)
        if after is None:
            return
        namespace, uid = after.annotations.get(HOME_NAMESPACE), after.labels.get(HOME_POD_UID)
        if namespace and uid:
            names = read_copied_names(after.namespace, after.labels, after.annotations)
            self._refs[after.uid] = PodRef(namespace, after.name, uid), names
            self._enter(after.namespace)
            self._catch_up(after)

    async def run(self) -> NoReturn:
        """Follow until cancelled."""
        if self._home_pods is not None:
            await self._home_pods.wait_synced()
        async with asyncio.TaskGroup() as group:
            name = "remote events"
            group.create_task(run_component(name, self._watches.run), name=name)
            while True:
                await asyncio.sleep(IDLE_SECONDS)
                self._close_idle()
        raise AssertionError("the loop above ends only by an exception")

    def _enter(self, namespace: str) -> None:
        self._pods[namespace] = self._pods.get(namespace, 0) + 1
        self._idle_since.pop(namespace, None)
        self._watches.open(namespace)

    def _leave(self, namespace: str) -> None:
        self._pods[namespace] -= 1
        if not self._pods[namespace]:
            del self._pods[namespace]
            self._idle_since[namespace] = asyncio.get_running_loop().time()

    def _close_idle(self) -> None:
        now = asyncio.get_running_loop().time()
        for namespace, since in list(self._idle_since.items()):
            if now >= since + IDLE_SECONDS:
                del self._idle_since[namespace]
                self._watches.close(namespace)

    def _catch_up(self, pod: ObjectMeta) -> None:
        """Tell what came before the pod was known."""
        watch = self._watches.get(pod.namespace)
        if watch is not None:
            for event in watch.informer.store.by_index(_BY_POD, pod.uid):
                self._handle(event, fresh=watch.informer.synced)

    def _build_informer(self, namespace: str) -> Informer[RemoteEvent]:
        informer: Informer[RemoteEvent] = Informer(
            self._client,
            EVENTS,
            decode_event,
            namespace=namespace,
            field_selector="involvedObject.kind=Pod",
            indexers={_BY_POD: lambda event: (event.involved_object.uid,)},
        )

        def on_change(_: RemoteEvent | None, new: RemoteEvent | None) -> None:
            if new is not None:
                self._handle(new, fresh=informer.synced)

        informer.add_handler(on_change)
        return informer

    def _handle(self, event: RemoteEvent, *, fresh: bool) -> None:
        known = self._refs.get(event.involved_object.uid)
        if known is None or not event.is_wanted:
            return
        built = event.build(*known)
        if built is None:
            logger.debug("%s: event without a time", event.metadata.key)
        elif fresh or self._now() - built.last_time <= MAX_AGE:
            self._tell(built)
