"""How many pods of our nodes there are in each phase, as a metric."""

from collections import Counter

import msgspec
from prometheus_client import Gauge

from vkubelet.kube.objects import NamespacedName
from vkubelet.pods.home import HomePods

PODS = Gauge("vkubelet_pods", "Home pods on our nodes, by phase.", ("phase",))

_PHASES = ("Pending", "Running", "Succeeded", "Failed")


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    status: _Status = _Status()


_decode_pod = msgspec.json.Decoder(_Pod).decode


class PodPhases:
    """Counts the pods of a view as they come, change and go."""

    def __init__(self, pods: HomePods) -> None:
        """Follow a view; to be done before it runs."""
        self._pods = pods
        self._phases: dict[NamespacedName, str] = {}
        self._counts: Counter[str] = Counter()
        for phase in _PHASES:
            PODS.labels(phase).set(0)
        pods.add_handler(self._handle)

    def _handle(self, key: NamespacedName) -> None:
        pod = self._pods.get(key)
        phase = "" if pod is None else _decode_pod(pod.raw).status.phase
        phase = phase if phase in _PHASES or pod is None else "Unknown"
        before = self._phases.pop(key, "")
        if phase:
            self._phases[key] = phase
        if phase == before:
            return
        for moved, change in ((before, -1), (phase, 1)):
            if moved:
                self._counts[moved] += change
                PODS.labels(moved).set(self._counts[moved])
