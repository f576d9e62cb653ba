"""One process at a time: a Lease that one holds and the others wait for."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import NoReturn

from vkubelet.errors import LeaseLostError
from vkubelet.kube.backoff import jitter
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from vkubelet.kube.objects import LEASES, KubeObject, NamespacedName

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
"""Pause between two looks at a lock that another process holds, and after a failure."""

RELEASE_TIMEOUT_SECONDS = 3.0
"""A lock that can't be given back in this time is left to expire: the process is stopping."""

_RENEWALS_PER_LEASE = 3
_GIVE_UP_SHARE = 0.8
"""A holder that can't renew stops before the others may take over."""

_PASSING_ERRORS = (UnreachableError, ServerError, TooManyRequestsError)


class LeaderLock:
    """
    A lock that all processes of one kind share, as client-go's leader election does it.

    How long a holder has been silent is measured by our own clock, from when we saw its last sign:
    nobody's wall clock matters.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_duration_seconds: int = 15,
        annotate: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """
        Say which lock; nothing happens before `acquire`.

        Args:
            client: Of the cluster that has the Lease.
            namespace: Its namespace.
            name: Its name.
            identity: Who we are; no other process says the same.
            lease_duration_seconds: After how long a silent holder is replaced.
            annotate: Asked at each write for annotations that the Lease is to have.
        """
        self._client = client
        self._key = NamespacedName(namespace, name)
        self._identity = identity
        self._duration_seconds = lease_duration_seconds
        self._annotate = annotate
        self._held: KubeObject | None = None
        self._renewed_at = 0.0
        self._seen: KubeObject | None = None
        self._seen_at = 0.0

    async def acquire(self, on_waiting: Callable[[str], None]) -> None:
        """
        Wait until the lock is ours; passing trouble is retried for ever.

        Args:
            on_waiting: Called with the holder's identity when waiting begins and when it changes.

        Raises:
            KubeError: If the API server refuses: a retry wouldn't help.
        """
        waiting_for = ""
        while True:
            holder = ""
            try:
                holder = await self._try_acquire()
            except (AlreadyExistsError, ConflictError) as error:
                logger.debug("%s: somebody was quicker: %s", self._key, error)
            except _PASSING_ERRORS as error:
                logger.warning("%s: trying again to get the lock: %s", self._key, error)
            if self._held is not None:
                logger.info("%s: the lock is ours (%s)", self._key, self._identity)
                return
            if holder and holder != waiting_for:
                waiting_for = holder
                on_waiting(holder)
            await asyncio.sleep(jitter(RETRY_SECONDS, spread=0.2))

    async def run(self) -> NoReturn:
        """
        Renew the lock until cancelled; cancelling keeps it, see `release`.

        Raises:
            LeaseLostError: If another holder has it, or it couldn't be renewed for most of its
                duration.
        """
        pause = self._duration_seconds / _RENEWALS_PER_LEASE
        while True:
            await asyncio.sleep(pause)
            await self._renew_in_time()

    async def release(self) -> None:
        """Give the lock back if it's ours, so that the next one needn't wait; bounded."""
        if self._held is None:
            return
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_SECONDS):
                await self._release()
        except TimeoutError:
            logger.warning("%s: no answer: the lock is left to expire", self._key)
        except KubeError as error:
            logger.warning("%s: the lock is left to expire: %s", self._key, error)
        else:
            logger.info("%s: the lock is given back", self._key)
        self._held = None

    async def _try_acquire(self) -> str:
        """Return the holder that is in the way, "" when the lock is ours or there was none."""
        started_at = _read_clock()
        try:
            lease = await self._client.get(LEASES, self._key)
        except NotFoundError:
            body = self._build_lease(None)
            lease = await self._client.create(LEASES, body, namespace=self._key.namespace)
        else:
            holder = _read_holder(lease)
            if holder not in {"", self._identity} and not self._is_silent(lease):
                return holder
            lease = await self._client.replace(LEASES, self._build_lease(lease))
        self._note_held(lease, started_at)
        return ""

    def _is_silent(self, lease: KubeObject) -> bool:
        """Whether the holder hasn't been heard of for as long as it promised to renew."""
        now = _read_clock()
        if self._seen is None or self._seen.get("spec") != lease.get("spec"):
            self._seen, self._seen_at = lease, now
        promised = lease.get("spec", {}).get("leaseDurationSeconds") or self._duration_seconds
        return now >= self._seen_at + float(promised)

    async def _renew_in_time(self) -> None:
        deadline = self._renewed_at + self._duration_seconds * _GIVE_UP_SHARE
        last_error: KubeError | None = None
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    try:
                        await self._renew()
                    except KubeError as error:
                        last_error = error
                        logger.warning("%s: trying again to renew the lock: %s", self._key, error)
                        await asyncio.sleep(RETRY_SECONDS)
                    else:
                        return
        except TimeoutError:
            self._held = None
            why = last_error or "no answer"
            raise LeaseLostError(
                f"{self._key}: the lock couldn't be renewed in time: {why}"
            ) from last_error

    async def _renew(self) -> None:
        if self._held is None:
            raise LeaseLostError(f"{self._key}: the lock was never ours")
        started_at = _read_clock()
        with suppress(ConflictError, NotFoundError):
            renewed = await self._client.replace(LEASES, self._build_lease(self._held))
            self._note_held(renewed, started_at)
            return
        # Written by another, or deleted: only what is there now tells.
        holder = await self._try_acquire()
        if holder:
            self._held = None
            raise LeaseLostError(f"{self._key}: {holder} has the lock now")

    async def _release(self) -> None:
        lease = self._held
        while lease is not None and _read_holder(lease) == self._identity:
            released = self._build_lease(lease)
            # A second, as client-go: whoever looks only at the times may have it at once, too.
            released["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            try:
                await self._client.replace(LEASES, released)
            except ConflictError:
                lease = await self._client.get(LEASES, self._key)
            except NotFoundError:
                return
            else:
                return

    def _note_held(self, lease: KubeObject, started_at: float) -> None:
        self._held = lease
        self._renewed_at = started_at

    def _build_lease(self, before: KubeObject | None) -> KubeObject:
        """Build the Lease that says we hold it now, in place of the one before."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._duration_seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        metadata: KubeObject = {"namespace": self._key.namespace, "name": self._key.name}
        if before is not None:
            metadata = before["metadata"]
        annotations = {**(metadata.get("annotations") or {}), **self._annotate()}
        if annotations:
            metadata = {**metadata, "annotations": annotations}
        if before is None:
            return _wrap(metadata, spec)
        transitions = before.get("spec", {}).get("leaseTransitions") or 0
        if _read_holder(before) == self._identity:
            spec["acquireTime"] = before.get("spec", {}).get("acquireTime") or now
        else:
            transitions += 1
        # Labels of the chart or of operators stay; the resourceVersion is the precondition.
        return _wrap(metadata, {**before.get("spec", {}), **spec, "leaseTransitions": transitions})


def _wrap(metadata: KubeObject, spec: KubeObject) -> KubeObject:
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _read_holder(lease: KubeObject) -> str:
    return str(lease.get("spec", {}).get("holderIdentity") or "")


def _read_clock() -> float:
    return asyncio.get_running_loop().time()
