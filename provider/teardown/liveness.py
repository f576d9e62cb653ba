"""Whether a process still serves a peering: its Leases are renewed."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import NotFoundError
from vkubelet.kube.objects import LEASES, KubeObject, NamespacedName

NODE_LEASES = "kube-node-lease"
OBSERVE_SECONDS = 15.0
"""The lock is renewed each 5 s, a node's Lease each 10 s."""
POLL_SECONDS = 1.0
FRESH = timedelta(seconds=60)
"""A Lease that is older hasn't been renewed for so long that nobody does."""


async def find_running_process(
    home: KubeClient,
    lock: NamespacedName,
    nodes: Iterable[str],
    on_waiting: Callable[[str], None],
) -> str | None:
    """
    Find out whether a process runs, by looking whether its Lease changes.

    A Lease alone doesn't tell: a process that was killed leaves it as it was. Where there is no
    lock at all, it may be in another namespace; then the Lease of a node tells.

    Args:
        home: The home cluster.
        lock: The peering's lock.
        nodes: Our virtual nodes.
        on_waiting: Called with what is looked at, when it takes a while.

    Returns:
        Who runs, None if nobody does.

    Raises:
        KubeError: If the home API server can't be asked.
    """
    first = await _read(home, lock)
    if first is not None:
        return await _observe(home, lock, first, on_waiting) if first.holder else None
    for name in nodes:
        key = NamespacedName(NODE_LEASES, name)
        first = await _read(home, key)
        if first is not None and first.is_fresh:
            return await _observe(home, key, first, on_waiting)
    return None


async def _observe(
    home: KubeClient, key: NamespacedName, first: "_Sign", on_waiting: Callable[[str], None]
) -> str | None:
    on_waiting(f"Lease {key}, held by {first.holder}")
    for _ in range(int(OBSERVE_SECONDS / POLL_SECONDS)):
        await asyncio.sleep(POLL_SECONDS)
        sign = await _read(home, key)
        if sign is None or not sign.holder:
            return None
        if sign != first:
            return f"{sign.holder} renews Lease {key}"
    return None


@dataclass(frozen=True, slots=True)
class _Sign:
    """Holder and time of a Lease."""

    holder: str
    renewed: str

    @property
    def is_fresh(self) -> bool:
        try:
            return datetime.now(UTC) - datetime.fromisoformat(self.renewed) < FRESH
        except (ValueError, TypeError):
            return False


async def _read(home: KubeClient, key: NamespacedName) -> _Sign | None:
    try:
        lease = await home.get(LEASES, key)
    except NotFoundError:
        return None
    spec: KubeObject = lease.get("spec", {})
    return _Sign(spec.get("holderIdentity") or "", spec.get("renewTime") or "")
