"""Empties nodes of their pods: by eviction, so that disruption budgets hold; at last by force."""

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from vkubelet.kube.backoff import compute_delay
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ConflictError, NotFoundError, TooManyRequestsError
from vkubelet.kube.eviction import evict_pod
from vkubelet.kube.objects import PODS, NamespacedName, encode_object
from vkubelet.kube.workqueue import WorkQueue
from vkubelet.pods.decide import PodKind
from vkubelet.pods.home import HomePod, HomePods, decode_home_pod, kind_of
from vkubelet.pods.status import is_terminal

logger = logging.getLogger(__name__)

WORKERS = 10
"""Evictions at once: a drain is in no hurry, and the API server has other things to do."""

LOOK_AGAIN_SECONDS = 30.0
"""When it's looked what became of an eviction or deletion of which nothing was heard."""

_FIRST_RETRY_SECONDS = 2.0
_LAST_RETRY_SECONDS = 20.0


def has_to_go(pod: HomePod) -> bool:
    """
    Whether a node isn't empty as long as this pod is there.

    Not so for mirror pods, which the API can't stop; for pods of DaemonSets, which would come back
    at once; for pods that have ended, unless they are about to go anyway. The API server collects
    them once the Node is gone.
    """
    if kind_of(pod) is not PodKind.ORDINARY:
        return False
    body = pod.decode()
    if not is_terminal(body):
        return True
    return pod.metadata.deletion_timestamp is not None and not body["metadata"].get("finalizers")


class PodDrain:
    """
    Drains of any number of nodes.

    What is under way isn't remembered over a restart: it's started again, with what is left of its
    time.
    """

    def __init__(self, client: KubeClient, home: HomePods) -> None:
        self._client = client
        self._home = home
        self._queue: WorkQueue[NamespacedName] = WorkQueue(
            "evictions", base_delay_seconds=1.0, max_delay_seconds=_LAST_RETRY_SECONDS
        )
        self._deadlines: dict[str, float] = {}
        self._waiting: dict[NamespacedName, str] = {}
        self._refusals: dict[NamespacedName, int] = {}
        self._handlers: list[Callable[[str], None]] = []
        home.add_handler(self._handle)

    def add_handler(self, handler: Callable[[str], None]) -> None:
        """Have a function called with the name of a node that a pod has left."""
        self._handlers.append(handler)

    def start(self, node: str, *, deadline: float) -> None:
        """
        Have the node's pods evicted, those too that come later; idempotent.

        Args:
            node: The node.
            deadline: When, by the loop's clock, pods that are still there are deleted.
        """
        is_new = node not in self._deadlines
        self._deadlines[node] = deadline
        if is_new:
            for pod in self._home.on_node(node):
                self._handle(pod.metadata.key)

    def stop(self, node: str) -> None:
        """Leave the node's pods alone; idempotent."""
        if self._deadlines.pop(node, None) is None:
            return
        for key in [key for key, known in self._waiting.items() if known == node]:
            self._forget(key)

    async def is_empty(self, node: str) -> bool:
        """
        Whether no pod has to go any more; the API server itself has the last word.

        Raises:
            KubeError: If it can't be asked.
        """
        if not self._home.synced or any(has_to_go(pod) for pod in self._home.on_node(node)):
            return False
        pods = await self._client.list(PODS, field_selector=f"spec.nodeName={node}")
        return not any(has_to_go(decode_home_pod(encode_object(pod))) for pod in pods)

    async def run(self) -> NoReturn:
        """Evict until cancelled."""
        await self._queue.run(self._reconcile, workers=WORKERS)

    def _handle(self, key: NamespacedName) -> None:
        pod = self._home.get(key)
        if pod is not None and pod.node in self._deadlines and has_to_go(pod):
            self._waiting[key] = pod.node
            self._queue.add(key)
            return
        node = self._forget(key)
        if node is not None:
            for handler in self._handlers:
                handler(node)

    def _forget(self, key: NamespacedName) -> str | None:
        self._refusals.pop(key, None)
        return self._waiting.pop(key, None)

    async def _reconcile(self, key: NamespacedName) -> float | None:
        node, pod = self._waiting.get(key), self._home.get(key)
        if node is None or pod is None or pod.metadata.deletion_timestamp is not None:
            return None
        left = self._deadlines[node] - asyncio.get_running_loop().time()
        try:
            if left <= 0:
                logger.warning("%s: the time for its eviction from %s is over: deleted", key, node)
                await self._client.delete(PODS, key, uid=pod.metadata.uid)
                return LOOK_AGAIN_SECONDS
            await evict_pod(self._client, key, uid=pod.metadata.uid)
        except (NotFoundError, ConflictError) as error:
            logger.debug("%s: gone already, or changing: %s", key, error)
            return _FIRST_RETRY_SECONDS
        except TooManyRequestsError as error:
            return min(self._count_refusal(key, node, error), left)
        logger.info("%s: evicted from %s", key, node)
        return min(LOOK_AGAIN_SECONDS, left)

    def _count_refusal(self, key: NamespacedName, node: str, error: TooManyRequestsError) -> float:
        """A disruption budget says no: seconds until it's asked again."""
        refusals = self._refusals[key] = self._refusals.get(key, 0) + 1
        if refusals == 1:
            logger.info("%s: not evicted from %s yet: %s", key, node, error)
        delay = compute_delay(
            refusals, base_seconds=_FIRST_RETRY_SECONDS, max_seconds=_LAST_RETRY_SECONDS
        )
        return max(delay, min(error.retry_after_seconds, _LAST_RETRY_SECONDS))
