"""Takes a Node away that isn't wanted any more: cordoned, emptied, deleted."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from vkubelet.config import KubeletPolicy
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ConflictError, NotFoundError
from vkubelet.kube.events import EventRecorder
from vkubelet.kube.objects import NODES, KubeObject, NamespacedName
from vkubelet.times import parse_time

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 5.0
"""A scheduler that hasn't seen the cordon yet may still bind pods; they need their Node."""

LOOK_AGAIN_SECONDS = 10.0


class Drain(Protocol):
    """Empties nodes of their pods."""

    def add_handler(self, handler: Callable[[str], None]) -> None:
        """Have a function called with the name of a node that a pod has left."""

    def start(self, node: str, *, deadline: float) -> None:
        """Have the node's pods evicted, and deleted from `deadline` (loop's clock) on."""

    def stop(self, node: str) -> None:
        """Leave the node's pods alone."""

    async def is_empty(self, node: str) -> bool:
        """Whether no pod has to go any more."""


class NodeRemoval:
    """Brings Nodes of ours that aren't wanted closer to their end, a step at a time."""

    def __init__(
        self,
        client: KubeClient,
        events: EventRecorder,
        policy: KubeletPolicy,
        drain: Drain,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._events = events
        self._policy = policy
        self._drain = drain
        self._now = now
        self._begun: dict[str, float] = {}

    def pause(self, name: str) -> None:
        """Leave the node's pods alone; its cordon is for others to undo."""
        self._begun.pop(name, None)
        self._drain.stop(name)

    def announce(self, live: KubeObject) -> None:
        """Tell that the Node's removal has begun."""
        message = (
            "not wanted any more: cordoned, its pods are evicted within "
            f"{self._policy.drain_timeout_seconds:g} s, then it's deleted"
        )
        logger.info("%s: %s", live["metadata"]["name"], message)
        self._events.record_nowait(live, type="Normal", reason="NodeBeingRemoved", message=message)

    async def advance(self, live: KubeObject, still_unwanted: Callable[[], bool]) -> float | None:
        """
        Take the next step.

        Args:
            live: The Node, marked as being removed.
            still_unwanted: Asked again before the Node is deleted.

        Returns:
            Seconds until it wants to be looked at; None if the Node is gone or wanted again.

        Raises:
            KubeError: If the API server can't be asked or refuses.
        """
        name = live["metadata"]["name"]
        begun = self._begun.setdefault(name, self._begun_at(live))
        self._drain.start(name, deadline=begun + self._policy.drain_timeout_seconds)
        age = asyncio.get_running_loop().time() - begun
        if age < SETTLE_SECONDS:
            return SETTLE_SECONDS - age
        if not await self._drain.is_empty(name):
            return LOOK_AGAIN_SECONDS
        if still_unwanted():
            await self._delete(name, live)
        return None

    def _begun_at(self, live: KubeObject) -> float:
        """When it began, by the loop's clock: maybe in an earlier life of this process."""
        since = parse_time(live["metadata"]["annotations"][self._policy.removal_annotation])
        age = 0.0 if since is None else max(0.0, (self._now() - since).total_seconds())
        return asyncio.get_running_loop().time() - age

    async def _delete(self, name: str, live: KubeObject) -> None:
        """Delete this very Node; its Lease is collected, being owned by it."""
        try:
            await self._client.delete(NODES, NamespacedName("", name), uid=live["metadata"]["uid"])
        except (NotFoundError, ConflictError) as error:
            logger.debug("%s: gone already: %s", name, error)
        else:
            logger.info("%s: empty, deleted", name)
        self.pause(name)
