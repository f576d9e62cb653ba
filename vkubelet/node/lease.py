"""The Leases by which nodes say that they live."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NoReturn

from vkubelet.config import KubeletPolicy
from vkubelet.kube.client import KubeClient, PatchType
from vkubelet.kube.errors import KubeError, NotFoundError, TooManyRequestsError
from vkubelet.kube.objects import LEASES, KubeObject, NamespacedName
from vkubelet.kube.pipeline import Pipeline
from vkubelet.times import format_micro_time, utc_now

logger = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"

GATHER_SECONDS = 1.0
"""Leases that are due within that time are renewed together: one by one they cost tenfold."""

_JITTER = 0.04  # as the kubelet's: spreads the renewals of many nodes
_FIRST_RETRY_SECONDS = 1.0
_MAX_NAMED = 5  # nodes in a line of the log


class NodeLeases:
    """
    Renews the Leases of all nodes, each in its own time, which no status write delays.

    Those that are due at about the same time are renewed together, over connections of their own;
    one whose answer is late, or a failure, doesn't hold up the others.
    """

    def __init__(
        self,
        client: KubeClient,
        policy: KubeletPolicy,
        find_uid: Callable[[str], str | None],
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """
        Prepare; `run` does it.

        Args:
            client: The home cluster.
            policy: For duration and interval.
            find_uid: The UID of a Node; None while there is no such Node, and no Lease to renew.
            now: The wall clock.
        """
        self._client = client
        self._policy = policy
        self._find_uid = find_uid
        self._now = now
        self._failures: dict[str, int] = {}  # by node; all whose Leases are kept are here
        self._due: dict[str, float] = {}  # by the loop's clock; without those under way
        self._unregistered: set[str] = set()
        self._unspread: set[str] = set()
        self._changed = asyncio.Event()

    def add(self, name: str) -> None:
        """Keep a node's Lease from now on, if it isn't already; one that isn't there is made."""
        if name in self._failures:
            return
        self._failures[name] = 0
        self._unspread.add(name)
        self._due[name] = asyncio.get_running_loop().time()
        self._changed.set()

    def remove(self, name: str) -> None:
        """Let a node's Lease expire, or leave it to the next process."""
        self._failures.pop(name, None)
        self._due.pop(name, None)
        self._unregistered.discard(name)
        self._unspread.discard(name)

    def look(self) -> None:
        """Take in that there may be Nodes which weren't there before."""
        if self._unregistered:
            self._changed.set()

    async def run(self) -> NoReturn:
        """Renew until cancelled; the Leases are then left to expire, or to the next process."""
        async with self._client.open_pipeline() as pipeline, asyncio.TaskGroup() as group:
            while True:
                await self._wait_due()
                if uids := self._take_due():
                    group.create_task(self._renew(pipeline, uids), name="renewal of leases")
                    await asyncio.sleep(GATHER_SECONDS)
        raise AssertionError("the loop above doesn't end")

    async def _wait_due(self) -> None:
        now = asyncio.get_running_loop().time()
        while True:
            self._changed.clear()
            for name in [name for name in self._unregistered if self._find_uid(name) is not None]:
                self._unregistered.remove(name)
                self._due[name] = now
            try:
                async with asyncio.timeout_at(min(self._due.values(), default=None)):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _take_due(self) -> dict[str, str]:
        """Take those out that are to be renewed now; their Nodes' UIDs by name."""
        horizon = asyncio.get_running_loop().time() + GATHER_SECONDS
        uids = {}
        for name in [name for name, due in self._due.items() if due <= horizon]:
            del self._due[name]
            uid = self._find_uid(name)
            if uid is None:
                self._unregistered.add(name)
            else:
                uids[name] = uid
        return uids

    async def _renew(self, pipeline: Pipeline, uids: Mapping[str, str]) -> None:
        started = asyncio.get_running_loop().time()
        interval = self._policy.lease_renew_seconds
        contents = {_key(name): self._build_content(name, uid) for name, uid in uids.items()}
        failed = await pipeline.patch(LEASES, contents, PatchType.MERGE, within_seconds=interval)
        missing = [key for key, error in failed.items() if isinstance(error, NotFoundError)]
        if missing:
            for key in missing:
                del failed[key]
            bodies = [_build_lease(key, contents[key]) for key in missing]
            failed |= await pipeline.create(LEASES, bodies, within_seconds=interval)
        _log(failed)
        for name in uids:
            self._plan(name, started, failed.get(_key(name)))

    def _plan(self, name: str, started: float, error: KubeError | None) -> None:
        """Set when a Lease is due again."""
        if name not in self._failures:
            return  # removed meanwhile
        interval = self._policy.lease_renew_seconds
        if error is None:
            self._failures[name] = 0
            if name in self._unspread:
                # Any part of an interval: nodes that came together renew at different times.
                self._unspread.remove(name)
                interval *= random.random()  # noqa: S311 - no secret
        else:
            self._failures[name] += 1
            interval = min(interval, _retry_seconds(self._failures[name], error))
        spread = 1 + random.uniform(0, _JITTER)  # noqa: S311 - no secret
        self._due[name] = started + interval * spread
        self._changed.set()

    def _build_content(self, name: str, node_uid: str) -> KubeObject:
        """What each renewal sets; a Node that was registered again owns the Lease anew."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
        return {
            "metadata": {"ownerReferences": [owner]},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": self._policy.lease_duration_seconds,
                "renewTime": format_micro_time(self._now()),
            },
        }


def _key(name: str) -> NamespacedName:
    return NamespacedName(LEASE_NAMESPACE, name)


def _build_lease(key: NamespacedName, content: KubeObject) -> KubeObject:
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, **content["metadata"]},
        "spec": content["spec"],
    }


def _retry_seconds(failures: int, error: KubeError) -> float:
    seconds = _FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 10)
    if isinstance(error, TooManyRequestsError):
        return max(seconds, error.retry_after_seconds)
    return seconds


def _log(failed: Mapping[NamespacedName, KubeError]) -> None:
    """One line for all that failed: when the API server is away, every Lease does."""
    if not failed:
        return
    names = [key.name for key in failed]
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    named, error = ", ".join(names[:_MAX_NAMED]), next(iter(failed.values()))
    logger.warning("%s%s: the Lease wasn't renewed: %s", named, more, error)
