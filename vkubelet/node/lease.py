"""The Lease by which a node says that it lives."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NoReturn

from vkubelet.config import KubeletPolicy
from vkubelet.kube.client import KubeClient, PatchType
from vkubelet.kube.errors import KubeError, NotFoundError
from vkubelet.kube.objects import LEASES, KubeObject, NamespacedName
from vkubelet.times import format_micro_time, utc_now

logger = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"

_JITTER = 0.04  # as the kubelet's: spreads the renewals of many nodes
_FIRST_RETRY_SECONDS = 1.0


class NodeLease:
    """Renews the Lease of one node, on a timer of its own that no status write delays."""

    def __init__(
        self,
        client: KubeClient,
        node_name: str,
        policy: KubeletPolicy,
        wait_registered: Callable[[], Awaitable[str]],
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """
        Prepare; `run` does it.

        Args:
            client: The home cluster.
            node_name: The node.
            policy: For duration and interval.
            wait_registered: Waits until the Node is there and returns its UID.
            now: The wall clock.
        """
        self._client = client
        self._key = NamespacedName(LEASE_NAMESPACE, node_name)
        self._policy = policy
        self._wait_registered = wait_registered
        self._now = now

    async def run(self) -> NoReturn:
        """
        Renew until cancelled; a Lease that isn't there is made.

        Cancelling is safe: the Lease is left to expire, or to the next process.
        """
        loop = asyncio.get_running_loop()
        failures = 0
        # The first interval is any part of one: nodes that came together renew at different times.
        part = random.random()  # noqa: S311 - no secret
        while True:
            uid = await self._wait_registered()
            started = loop.time()
            interval = self._policy.lease_renew_seconds
            try:
                async with asyncio.timeout(interval):
                    await self._renew(uid)
                failures = 0
                interval *= part
                part = 1.0
            except (KubeError, TimeoutError) as error:
                failures += 1
                interval = min(interval, _FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 10))
                logger.warning(
                    "%s: the Lease wasn't renewed: %s", self._key.name, str(error) or "time-out"
                )
            spread = 1 + random.uniform(0, _JITTER)  # noqa: S311 - no secret
            await asyncio.sleep(max(0.0, started + interval * spread - loop.time()))

    async def _renew(self, node_uid: str) -> None:
        content = self._build_content(node_uid)
        try:
            await self._client.patch(LEASES, self._key, content, PatchType.MERGE)
        except NotFoundError:
            await self._client.create(
                LEASES, self._build_lease(content), namespace=self._key.namespace
            )

    def _build_content(self, node_uid: str) -> KubeObject:
        """What each renewal sets; a Node that was registered again owns the Lease anew."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._key.name, "uid": node_uid}
        return {
            "metadata": {"ownerReferences": [owner]},
            "spec": {
                "holderIdentity": self._key.name,
                "leaseDurationSeconds": self._policy.lease_duration_seconds,
                "renewTime": format_micro_time(self._now()),
            },
        }

    def _build_lease(self, content: KubeObject) -> KubeObject:
        metadata = {"name": self._key.name, "namespace": self._key.namespace}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {**metadata, **content["metadata"]},
            "spec": content["spec"],
        }
