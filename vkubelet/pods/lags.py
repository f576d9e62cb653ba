"""How far behind either side is: from what was noticed until it has been written across."""

import asyncio

from prometheus_client import Histogram

from vkubelet.kube.objects import NamespacedName

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

CREATE_SECONDS = Histogram(
    "vkubelet_pod_create_lag_seconds",
    "From when a home pod was seen until what is behind it was created.",
    buckets=_BUCKETS,
)
STATUS_SECONDS = Histogram(
    "vkubelet_pod_status_lag_seconds",
    "From when a status behind was seen until the home pod's status was written.",
    buckets=_BUCKETS,
)


class PodLags:
    """What has been noticed and not yet been written across; by pods that wait for it."""

    def __init__(self) -> None:
        self._pods: dict[NamespacedName, float] = {}
        self._statuses: dict[NamespacedName, float] = {}

    def note_pod(self, key: NamespacedName) -> None:
        """Note that a home pod has come or changed; the first time counts."""
        self._pods.setdefault(key, asyncio.get_running_loop().time())

    def note_status(self, key: NamespacedName) -> None:
        """Note that a status behind has come or changed; the first time counts."""
        self._statuses.setdefault(key, asyncio.get_running_loop().time())

    def finish(
        self, key: NamespacedName, *, created: bool, written: bool, waiting: bool = False
    ) -> None:
        """
        Take down the lags of a pod that has been reconciled.

        Args:
            key: The pod.
            created: Whether what is behind has just been created.
            written: Whether its status has just been written.
            waiting: Whether it still waits to be created.
        """
        now = asyncio.get_running_loop().time()
        if not waiting:
            seen = self._pods.pop(key, None)
            if created and seen is not None:
                CREATE_SECONDS.observe(now - seen)
        seen = self._statuses.pop(key, None)
        if written and seen is not None:
            STATUS_SECONDS.observe(now - seen)
