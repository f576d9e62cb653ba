"""Virtual nodes whose group is gone: kept for a while, as it may come back."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provider.nodes.virtual_node import build_deserted
from vkubelet.interface import VirtualNode

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Lingering:
    """A virtual node without a group, and till when it's kept by the loop's clock."""

    node: VirtualNode
    until: float


class LingeringNodes:
    """
    Virtual nodes that no group stands behind any more.

    A physical node that is replaced, or a label that is moved, mustn't cost pods their virtual node
    at once.
    """

    def __init__(self, delay_seconds: float) -> None:
        self._delay_seconds = delay_seconds
        self._nodes: dict[str, _Lingering] = {}

    def update(self, before: Mapping[str, VirtualNode], after: Mapping[str, VirtualNode]) -> None:
        """Take in which virtual nodes there were, and which have a group now."""
        for name in self._nodes.keys() & after.keys():
            logger.info("%s: physical nodes stand behind it again", name)
            del self._nodes[name]
        if not self._delay_seconds:
            return
        until = asyncio.get_running_loop().time() + self._delay_seconds
        for name in before.keys() - after.keys() - self._nodes.keys():
            logger.warning(
                "%s: no physical node stands behind it any more: kept for %g s",
                name,
                self._delay_seconds,
            )
            self._nodes[name] = _Lingering(build_deserted(before[name]), until)

    def current(self) -> Sequence[VirtualNode]:
        """Those that are still kept; others are forgotten."""
        now = asyncio.get_running_loop().time()
        for name in [name for name, kept in self._nodes.items() if kept.until <= now]:
            del self._nodes[name]
        return [kept.node for kept in self._nodes.values()]

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the next one is to go; None if there is none."""
        if not self._nodes:
            return None
        first = min(kept.until for kept in self._nodes.values())
        return max(0.0, first - asyncio.get_running_loop().time())
