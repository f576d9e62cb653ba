"""
Pods that the remote API server forbids, as by a quota, and when they are offered again.

Each has a back-off of its own in the pod controller. This is about not waiting for it when there is
a sign that there may be room: a pod of ours has ended or gone in that remote namespace.
"""

from typing import NoReturn, Protocol

from vkubelet.interface import PodRef, Unblocked
from vkubelet.kube.objects import CachedObject, NamespacedName
from vkubelet.kube.workqueue import WorkQueue
from vkubelet.pods.home import HomePods
from vkubelet.pods.status import is_terminal

SETTLE_SECONDS = 1.0
"""From a sign to the next offer in a namespace, which also bounds how often there is one."""

AGAIN_SECONDS = 5.0
"""When it's tried once more after a sign: what a quota says is used comes late."""

MAX_OFFERED = 64
"""Pods of a namespace that are offered together at most."""


class Tell(Protocol):
    """Who is told that a pod may be offered again."""

    def __call__(self, event: Unblocked, /) -> None:
        """Take it in; quick."""


class RefusedPods:
    """
    Has one refused pod of a namespace offered again when something was freed there.

    When that one is taken, two more are offered, then four, and so on until one is refused again:
    what was freed is used up soon, and a full namespace costs a request a sign. Who waits longest
    is next; so what can never be taken keeps no other waiting.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._waiting: dict[str, dict[PodRef, bool]] = {}  # whether it's offered just now
        self._places: dict[NamespacedName, tuple[str, PodRef]] = {}  # by home pod
        self._offers: dict[str, int] = {}
        self._looks: dict[str, int] = {}
        self._queue: WorkQueue[str] = WorkQueue("refused pods")
        self._home_pods: HomePods | None = None

    def follow_home_pods(self, pods: HomePods) -> None:
        """Take the view of the home pods on our nodes; before `run`."""
        self._home_pods = pods
        pods.add_handler(self._on_home_pod)

    async def run(self) -> NoReturn:
        """Have pods offered again until cancelled."""
        await self._queue.run(self._offer, workers=1)

    def handle_remote_pod(self, old: CachedObject | None, new: CachedObject | None) -> None:
        """Take in that a remote pod ended or went; a handler of their informer."""
        if old is None or old.metadata.namespace not in self._waiting:
            return
        if not is_terminal(old.decode()) and (new is None or is_terminal(new.decode())):
            self._note_freed(old.metadata.namespace)

    def note_refused(self, ref: PodRef, namespace: str) -> None:
        """Note that the pod is forbidden in a remote namespace as things are."""
        if not self._is_at_home(ref):
            return
        place = self._places.get(ref.key)
        if place is not None and place != (namespace, ref):
            self._drop(ref.key)
        waiting = self._waiting.setdefault(namespace, {})
        if waiting.pop(ref, False):
            self._offers[namespace] = 1
        waiting[ref] = False
        self._places[ref.key] = namespace, ref

    def note_made(self, ref: PodRef) -> None:
        """Note that the pod could be made; if it was refused before, there may be more room."""
        place = self._places.get(ref.key)
        if place is None or place[1] != ref:
            return
        self._drop(ref.key)
        namespace = place[0]
        if namespace in self._waiting:
            self._offers[namespace] = min(MAX_OFFERED, 2 * self._offers.get(namespace, 1))
            self._queue.add(namespace)

    def _note_freed(self, namespace: str) -> None:
        self._looks[namespace] = 2
        self._queue.add_after(namespace, SETTLE_SECONDS)

    async def _offer(self, namespace: str) -> float | None:
        waiting = self._waiting.get(namespace, {})
        due = [ref for ref, offered in waiting.items() if not offered]
        for ref in due[: self._offers.get(namespace, 1)]:
            waiting[ref] = True
            self._tell(Unblocked(ref))
        looks = self._looks.pop(namespace, 0) - 1
        if looks > 0 and waiting:
            self._looks[namespace] = looks
            return AGAIN_SECONDS
        return None

    def _on_home_pod(self, key: NamespacedName) -> None:
        place = self._places.get(key)
        if place is not None and not self._is_at_home(place[1]):
            self._drop(key)

    def _is_at_home(self, ref: PodRef) -> bool:
        if self._home_pods is None:
            return True
        pod = self._home_pods.get(ref.key)
        return pod is not None and pod.metadata.uid == ref.uid

    def _drop(self, key: NamespacedName) -> None:
        namespace, ref = self._places.pop(key)
        waiting = self._waiting[namespace]
        del waiting[ref]
        if not waiting:
            del self._waiting[namespace]
            self._offers.pop(namespace, None)
            self._looks.pop(namespace, None)
