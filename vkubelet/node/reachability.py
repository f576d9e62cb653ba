"""Whether what is behind our nodes can be reached, and for how long it couldn't."""

import asyncio
import enum
import logging
from typing import assert_never

from vkubelet.interface import (
    Gone,
    PodEvent,
    PodStatus,
    Reachable,
    StatusEvent,
    Synced,
    Unblocked,
    Unreachable,
)

logger = logging.getLogger(__name__)


class Reach(enum.Enum):
    """
    What a node may say of what is behind it.

    Attributes:
        UNKNOWN: Not reached yet by this process, which has only just started.
        REACHED: Reached; an absence within the limit doesn't count.
        LOST: Out of reach for longer than the limit.
    """

    UNKNOWN = "unknown"
    REACHED = "reached"
    LOST = "lost"


class Reachability:
    """Follows a provider's events; before it has synced, the time counts from the start."""

    def __init__(self, after_seconds: float) -> None:
        self._after_seconds = after_seconds
        self._synced = False
        self._reachable = True
        self._ever = False
        self._since: float | None = asyncio.get_running_loop().time()

    def handle_status(self, event: StatusEvent) -> bool:
        """Take in an event; whether what is behind came into reach or got out of it."""
        match event:
            case PodStatus() | Gone() | Unblocked() | PodEvent():
                return False
            case Synced():
                self._synced = True
            case Reachable():
                self._reachable = True
            case Unreachable(message):
                if self._reachable:
                    logger.warning("what is behind our nodes is out of reach: %s", message)
                self._reachable = False
            case _:
                assert_never(event)
        return self._update()

    def _update(self) -> bool:
        before = self._since
        if self._synced and self._reachable:
            if before is not None and self._ever:
                logger.info("what is behind our nodes is in reach again")
            self._since, self._ever = None, True
        elif before is None:
            self._since = asyncio.get_running_loop().time()
        return (before is None) != (self._since is None)

    @property
    def in_contact(self) -> bool:
        """Whether it's in reach at this moment, and all of it known."""
        return self._since is None

    @property
    def reach(self) -> Reach:
        """What may be said now."""
        if self._since is None:
            return Reach.REACHED
        if asyncio.get_running_loop().time() >= self._since + self._after_seconds:
            return Reach.LOST
        return Reach.REACHED if self._ever else Reach.UNKNOWN

    @property
    def seconds_to_loss(self) -> float | None:
        """Seconds until it counts as lost; None if it's in reach, or lost already."""
        if self._since is None or self.reach is Reach.LOST:
            return None
        return self._since + self._after_seconds - asyncio.get_running_loop().time()
