"""Use of virtual nodes and their pods, polled from the remote metrics API while somebody asks."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NoReturn, Protocol

import msgspec

from provider.labels import HOME_NAMESPACE, HOME_POD_UID, VIRTUAL_NODE
from provider.stats.counters import Rate, UsageCounter
from provider.stats.metrics_api import (
    NODE_METRICS,
    POD_METRICS,
    decode_node_metrics,
    decode_pod_metrics,
    parse_node_rate,
    parse_rates,
    parse_starts,
)
from vkubelet.interface import NodeUsage, PodRef, PodUsage, UsageSample
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ForbiddenError, KubeError, NotFoundError, ServerTimeoutError
from vkubelet.kube.objects import CachedObject, NamespacedName
from vkubelet.times import utc_now

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 15.0
"""As often as metrics-server looks at kubelets by default."""

ABSENT_SECONDS: Final = 60.0
"""How soon a metrics API that isn't there is looked for again."""

ASKED_SECONDS: Final = 300.0
"""Without a question for so long, nothing is polled."""

STALE_SECONDS: Final = 120.0
"""What was read before is told for so long while the API fails."""

FIRST_ANSWER_SECONDS: Final = 2.0
"""How long the first question after a pause waits for what is polled then."""

_TURN_SIZE = 200
"""Pods that are taken in one go before other tasks get a turn."""


class KnownPods(Protocol):
    """Our remote pods."""

    @property
    def namespaces(self) -> Sequence[str]:
        """Where they are; none: anywhere."""

    @property
    def label_selector(self) -> str:
        """Selects them."""

    def get(self, key: NamespacedName) -> CachedObject | None:
        """The pod of that key as far as it's known."""


@dataclass(slots=True)
class _Pod:
    """Counters of a home pod, by what its remote pod uses."""

    ref: PodRef
    node: str
    remote_uid: str
    pod: UsageCounter
    version: str = ""
    pod_start: datetime | None = None
    starts: dict[str, datetime] = field(default_factory=dict)
    containers: dict[str, UsageCounter] = field(default_factory=dict)

    def build_usage(self, names: Sequence[str]) -> PodUsage | None:
        sample = self.pod.sample
        if sample is None:
            return None
        samples = {name: self.containers[name].sample for name in names}
        return PodUsage(
            ref=self.ref,
            pod=sample,
            containers={name: taken for name, taken in samples.items() if taken is not None},
        )


class RemoteStats:
    """What virtual nodes use; `run` polls, `read` answers from what was polled."""

    def __init__(
        self,
        client: KubeClient,
        pods: KnownPods,
        *,
        physical_node: Callable[[str], str | None],
    ) -> None:
        """
        Say where to look.

        Args:
            client: To the remote cluster.
            pods: Our remote pods.
            physical_node: The one physical node that a virtual node stands for; None if it's
                several: then its use is that of its pods.
        """
        self._client = client
        self._known = pods
        self._physical_node = physical_node
        self._pods: dict[NamespacedName, _Pod] = {}
        self._nodes: dict[str, UsageCounter] = {}
        self._usage: dict[str, NodeUsage] = {}
        self._asked: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._polled = asyncio.Event()
        self._polled_at: float | None = None
        self._trouble = ""
        self._reads_nodes = False

    async def read(self, node: str) -> NodeUsage:
        """See `Provider.stats`; of the first question's answer a part may be missing."""
        now = asyncio.get_running_loop().time()
        is_new = node not in self._asked
        self._asked[node] = now
        polled_at = self._polled_at
        if is_new or polled_at is None or now - polled_at > 2 * POLL_SECONDS:
            self._polled.clear()
            self._wake.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_ANSWER_SECONDS):
                    await self._polled.wait()
        return self._usage.get(node, NodeUsage())

    async def run(self) -> NoReturn:
        """Poll until cancelled, as long as somebody asks; failures are logged, once each."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._is_asked():
                delay = POLL_SECONDS
                try:
                    await self._poll()
                    self._note_trouble("")
                except KubeError as error:
                    delay = self._handle_failure(error)
                self._polled.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._wake.wait()
                self._wake.clear()

    def _is_asked(self) -> bool:
        limit = asyncio.get_running_loop().time() - ASKED_SECONDS
        self._asked = {node: at for node, at in self._asked.items() if at > limit}
        return bool(self._asked)

    def _handle_failure(self, error: KubeError) -> float:
        """Forget what is too old, and return when to try again."""
        now = asyncio.get_running_loop().time()
        match error:
            case NotFoundError() | ServerTimeoutError():
                self._note_trouble("it has none (now)", error)
                self._usage.clear()
                return ABSENT_SECONDS
            case ForbiddenError():
                self._note_trouble("its use isn't allowed to us", error)
                self._usage.clear()
                return ABSENT_SECONDS
            case _:
                self._note_trouble("it can't be read", error)
                if self._polled_at is not None and now - self._polled_at > STALE_SECONDS:
                    self._usage.clear()
                return POLL_SECONDS

    def _note_trouble(self, trouble: str, error: KubeError | None = None) -> None:
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if trouble:
            logger.warning("metrics API of the remote cluster: %s: %s", trouble, error)
        else:
            logger.info("metrics API of the remote cluster: it answers")

    async def _poll(self) -> None:
        names: dict[NamespacedName, list[str]] = {}
        added: defaultdict[str, float] = defaultdict(float)
        for namespace in self._known.namespaces or ("",):
            page = await self._client.list_page(
                POD_METRICS, namespace=namespace, label_selector=self._known.label_selector
            )
            for number, raw in enumerate(page.items, 1):
                self._take_pod(raw, names, added)
                if number % _TURN_SIZE == 0:
                    await asyncio.sleep(0)
        node_rates = await self._poll_nodes()
        self._polled_at = asyncio.get_running_loop().time()
        self._pods = {
            key: pod for key, pod in self._pods.items() if key in names or self._known.get(key)
        }
        self._build(names, added, node_rates)

    def _take_pod(
        self,
        raw: msgspec.Raw,
        names: dict[NamespacedName, list[str]],
        added: defaultdict[str, float],
    ) -> None:
        try:
            metrics = decode_pod_metrics(raw)
            rates = parse_rates(metrics)
            key = NamespacedName(metrics.metadata.namespace, metrics.metadata.name)
            pod = self._find_pod(key)
        except (msgspec.MsgspecError, ValueError) as error:
            logger.debug("metrics of a pod can't be read: %s", error)
            return
        if pod is None or not rates:
            return
        for name, rate in rates.items():
            started = pod.starts.get(name) or pod.pod_start or rate.time
            counter = pod.containers.setdefault(name, UsageCounter(started))
            counter.take_rate(rate, pod.starts.get(name) or counter.started)
        first = next(iter(rates.values()))
        total = Rate(
            time=max(rate.time for rate in rates.values()),
            window_seconds=first.window_seconds,
            cores=sum(rate.cores for rate in rates.values()),
            memory_bytes=sum(rate.memory_bytes for rate in rates.values()),
        )
        added[pod.node] += pod.pod.take_rate(total, pod.pod.started)
        names[key] = list(rates)

    def _find_pod(self, key: NamespacedName) -> _Pod | None:
        """Find the counters of a remote pod, new ones if it's another than before."""
        known = self._known.get(key)
        if known is None:
            return None
        metadata = known.metadata
        pod = self._pods.get(key)
        if pod is None or pod.remote_uid != metadata.uid:
            uid = metadata.labels.get(HOME_POD_UID, "")
            namespace = metadata.annotations.get(HOME_NAMESPACE, "")
            if not uid or not namespace:
                return None
            pod_start, starts = parse_starts(known.raw)
            pod = self._pods[key] = _Pod(
                ref=PodRef(namespace, metadata.name, uid),
                node=metadata.annotations.get(VIRTUAL_NODE, ""),
                remote_uid=metadata.uid,
                pod=UsageCounter(pod_start or utc_now()),
                version=metadata.resource_version,
                pod_start=pod_start,
                starts=starts,
            )
        elif pod.version != metadata.resource_version:
            pod.pod_start, pod.starts = parse_starts(known.raw)
            pod.version = metadata.resource_version
        return pod

    async def _poll_nodes(self) -> dict[str, Rate]:
        """Read what physical nodes use that virtual nodes stand for one by one."""
        wanted = {
            physical: node
            for node in (*self._asked, *self._nodes)
            if (physical := self._physical_node(node)) is not None
        }
        if not wanted:
            return {}
        try:
            page = await self._client.list_page(NODE_METRICS)
            self._reads_nodes = True
        except ForbiddenError as error:
            logger.debug("nodes' own use isn't allowed to us: %s", error)
            self._reads_nodes = False
            return {}
        rates: dict[str, Rate] = {}
        for raw in page.items:
            try:
                metrics = decode_node_metrics(raw)
                if metrics.metadata.name in wanted:
                    rates[wanted[metrics.metadata.name]] = parse_node_rate(metrics)
            except (msgspec.MsgspecError, ValueError) as error:
                logger.debug("metrics of a node can't be read: %s", error)
        return rates

    def _build(
        self,
        names: dict[NamespacedName, list[str]],
        added: defaultdict[str, float],
        node_rates: dict[str, Rate],
    ) -> None:
        pods: defaultdict[str, list[PodUsage]] = defaultdict(list)
        for key, containers in names.items():
            usage = self._pods[key].build_usage(containers)
            if usage is not None:
                pods[self._pods[key].node].append(usage)
        nodes = {*pods, *self._asked}
        self._nodes = {
            node: self._nodes.get(node) or UsageCounter(utc_now())
            for node in {*nodes, *self._nodes}
        }
        self._usage = {
            node: NodeUsage(
                node=self._count_node(node, pods[node], added[node], node_rates.get(node)),
                pods=tuple(pods[node]),
            )
            for node in nodes
        }

    def _count_node(
        self, node: str, pods: Sequence[PodUsage], added: float, rate: Rate | None
    ) -> UsageSample | None:
        counter = self._nodes[node]
        if rate is not None:
            counter.take_rate(rate, counter.started)
        elif self._physical_node(node) is None or not self._reads_nodes:
            counter.add(
                added,
                time=max((usage.pod.time for usage in pods), default=utc_now()),
                memory_bytes=sum(usage.pod.memory_bytes for usage in pods),
            )
        return counter.sample
