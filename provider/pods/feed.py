"""What is to be told of remote pods: the latest of each, for one consumer."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator

from vkubelet.interface import PodEvent, PodRef, Reachable, Unblocked, Unreachable
from vkubelet.kube.objects import CachedObject, KubeObject


class StatusFeed:
    """The latest of each pod, and of each event on it, until it's taken; bounded by their count."""

    def __init__(self) -> None:
        self._changes: dict[PodRef, CachedObject | KubeObject | None] = {}
        self._last: dict[PodRef, CachedObject | KubeObject] = {}  # of those that went untaken
        self._notes: deque[Unreachable | Reachable] = deque(maxlen=2)  # only the last counts
        self._told: dict[tuple[PodRef, str], PodEvent | Unblocked] = {}
        self._wake = asyncio.Event()

    def put(self, ref: PodRef, pod: CachedObject | KubeObject) -> None:
        """Have a pod told of as it is now."""
        self._changes[ref] = pod
        self._last.pop(ref, None)
        self._wake.set()

    def put_gone(self, ref: PodRef) -> None:
        """Have it told that there is none any more, after what wasn't told of it yet."""
        pending = self._changes.get(ref)
        if pending is not None:  # whether it had started, or ended, must not be lost
            self._last[ref] = pending
        self._changes[ref] = None
        self._wake.set()

    def put_note(self, note: Unreachable | Reachable) -> None:
        """Have it told whether the remote API can be reached."""
        self._notes.append(note)
        self._wake.set()

    def put_told(self, event: PodEvent | Unblocked) -> None:
        """Have something beside statuses told; the latest of each identity."""
        identity = event.identity if isinstance(event, PodEvent) else ""
        self._told[event.ref, identity] = event
        self._wake.set()

    def wake(self) -> None:
        """Have the consumer look again."""
        self._wake.set()

    async def wait(self) -> None:
        """Wait until there is something to look at."""
        await self._wake.wait()
        self._wake.clear()

    def take_notes(self) -> list[Unreachable | Reachable]:
        """Take what is to be told first."""
        notes = list(self._notes)
        self._notes.clear()
        return notes

    def take_told(self) -> Iterable[PodEvent | Unblocked]:
        """Take what is to be told beside statuses."""
        told, self._told = self._told, {}
        return told.values()

    def take(self) -> Iterator[tuple[PodRef, CachedObject | KubeObject | None]]:
        """Take pods, each as it is now; None: it's gone."""
        changes, self._changes = self._changes, {}
        last, self._last = self._last, {}
        for ref, pod in changes.items():
            if ref in last:
                yield ref, last[ref]
            yield ref, pod
