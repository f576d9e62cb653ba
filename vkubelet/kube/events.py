"""Events on objects: deduplicated, rate-limited, never in anyone's way."""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, Literal, NoReturn, TypeAlias, TypeVar

from vkubelet.kube.client import KubeClient, PatchType
from vkubelet.kube.errors import (
    AlreadyExistsError,
    KubeError,
    NamespaceEndingError,
    NotFoundError,
)
from vkubelet.kube.names import MAX_DNS_SUBDOMAIN, is_dns_subdomain
from vkubelet.kube.objects import EVENTS, KubeObject, NamespacedName, build_object_reference

logger = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

WORKERS = 4
"""Writes under way at once; the events of one object go through one of them, in their order."""

MAX_QUEUED = 1000
"""Events that wait; more come in only when the API server is slower than whatever happens here."""

MAX_REMEMBERED = 4096
"""As client-go: objects and events kept in mind; forgetting one costs a further Event at most."""

REPEAT_SECONDS = 600.0
"""As client-go: within this time the same event raises a count."""

BURST = 25
REFILL_SECONDS = 300.0
"""As client-go's spam filter: so many events on an object at once, then one each five minutes."""

MAX_MESSAGE_CHARACTERS = 1024
MAX_REASON_CHARACTERS = 128
"""What the API takes of each."""

_Identity: TypeAlias = tuple[str, str, str, str]
"""An object: kind, namespace, name, UID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    identity: _Identity
    reference: KubeObject
    type: str
    reason: str
    message: str
    noted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """An event that somebody else saw; the same one has the same `name`, after a restart too."""

    note: _Note
    name: str
    count: int
    first_time: datetime
    component: str
    host: str

    @property
    def state(self) -> tuple[int, datetime, str]:
        """What changes when it happens again."""
        return self.count, self.note.noted_at, self.note.message


@dataclass(frozen=True, slots=True)
class _Written:
    """An Event that is there, and how often it has happened."""

    name: str
    count: int
    written_at: float


class _Recent(OrderedDict[K, V], Generic[K, V]):
    """A dict that forgets what was least recently put in."""

    def put(self, key: K, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > MAX_REMEMBERED:
            self.popitem(last=False)


class EventRecorder:
    """Writes core/v1 Events; a repeated one raises the count of the one that is there."""

    def __init__(self, client: KubeClient, *, component: str, host: str = "") -> None:
        self._client = client
        self._component = component
        self._host = host
        self._queues: list[asyncio.Queue[_Note | _Copy]] = [
            asyncio.Queue(MAX_QUEUED // WORKERS) for _ in range(WORKERS)
        ]
        self._written: _Recent[tuple[_Identity, str, str, str], _Written] = _Recent()
        self._copied: _Recent[str, tuple[int, datetime, str]] = _Recent()
        self._budgets: _Recent[_Identity, tuple[float, float]] = _Recent()
        self._last_stamp = 0

    def record_nowait(
        self,
        regarding: KubeObject,
        *,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the API's word
        reason: str,
        message: str,
    ) -> None:
        """
        Note an event on an object (see `build_object_reference`).

        It's dropped with a log line when the queue is full or the object has had too many.
        """
        note = _build_note(regarding, type, reason, message, datetime.now(tz=UTC))
        if not self._spend(note.identity):
            logger.debug("%s: event %s dropped: too many on this object", _text(note), reason)
            return
        self._put(note, note)

    def copy_nowait(
        self,
        regarding: KubeObject,
        *,
        identity: str,
        type: str,  # noqa: A002 - the API's word
        reason: str,
        message: str,
        count: int,
        first_time: datetime,
        last_time: datetime,
        component: str,
        host: str = "",
    ) -> None:
        """
        Note an event that somebody else saw, with its count and times.

        The same `identity` on the same object is the same Event, now and after a restart: later
        news of it change the one that is there. Who saw it has limited it already.
        """
        note = _build_note(regarding, type, reason, message, last_time)
        digest = hashlib.sha256(f"{note.identity[3]}/{identity}".encode()).hexdigest()[:16]
        copy = _Copy(
            note=note,
            name=_join_name(note.identity[2], digest),
            count=count,
            first_time=first_time,
            component=component,
            host=host,
        )
        self._put(copy, note)

    def _put(self, item: _Note | _Copy, note: _Note) -> None:
        try:
            self._queues[hash(note.identity) % WORKERS].put_nowait(item)
        except asyncio.QueueFull:
            logger.warning(
                "%s: event %s dropped: too many wait: %s", _text(note), note.reason, note.message
            )

    async def run(self) -> NoReturn:
        """Write noted events until cancelled; what can't be written is dropped with a log line."""
        async with asyncio.TaskGroup() as workers:
            for number, queue in enumerate(self._queues):
                workers.create_task(self._work(queue), name=f"events {number}")
        raise AssertionError("the workers don't return")

    async def _work(self, queue: asyncio.Queue[_Note | _Copy]) -> NoReturn:
        while True:
            item = await queue.get()
            note = item.note if isinstance(item, _Copy) else item
            try:
                if isinstance(item, _Copy):
                    await self._write_copy(item)
                else:
                    await self._write(item)
            except NamespaceEndingError:
                logger.debug("%s: event %s dropped with its namespace", _text(note), note.reason)
            except KubeError as error:
                logger.warning(
                    "%s: event %s dropped: %s (%s)", _text(note), note.reason, error, note.message
                )

    async def _write(self, note: _Note) -> None:
        key = (note.identity, note.type, note.reason, note.message)
        now = asyncio.get_running_loop().time()
        namespace = note.identity[1] or "default"
        written = self._written.get(key)
        if written is not None and now - written.written_at < REPEAT_SECONDS:
            try:
                await self._client.patch(
                    EVENTS,
                    NamespacedName(namespace, written.name),
                    {"count": written.count + 1, "lastTimestamp": _format_time(note.noted_at)},
                    PatchType.MERGE,
                )
            except NotFoundError:
                logger.debug("%s: event %s has been removed meanwhile", _text(note), note.reason)
            else:
                self._written.put(key, _Written(written.name, written.count + 1, now))
                return
        body = self._build_event(note, namespace)
        await self._client.create(EVENTS, body, namespace=namespace)
        self._written.put(key, _Written(body["metadata"]["name"], 1, now))

    async def _write_copy(self, copy: _Copy) -> None:
        """Write an event of somebody else's: made, or brought up to date."""
        known = self._copied.get(copy.name)
        if known == copy.state:
            return
        namespace = copy.note.identity[1] or "default"
        if known is None or not await self._update_copy(copy, namespace):
            try:
                await self._client.create(EVENTS, _build_copy(copy, namespace), namespace=namespace)
            except AlreadyExistsError:
                await self._update_copy(copy, namespace)
        self._copied.put(copy.name, copy.state)

    async def _update_copy(self, copy: _Copy, namespace: str) -> bool:
        """Bring an Event up to date; whether it's there."""
        changes = {
            "count": copy.count,
            "lastTimestamp": _format_time(copy.note.noted_at),
            "message": copy.note.message,
        }
        try:
            key = NamespacedName(namespace, copy.name)
            await self._client.patch(EVENTS, key, changes, PatchType.MERGE)
        except NotFoundError:
            return False
        return True

    def _build_event(self, note: _Note, namespace: str) -> KubeObject:
        when = _format_time(note.noted_at)
        source = {"component": self._component}
        if self._host:
            source["host"] = self._host
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": self._build_name(note.identity[2]), "namespace": namespace},
            "involvedObject": note.reference,
            "type": note.type,
            "reason": note.reason,
            "message": note.message,
            "count": 1,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "source": source,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }

    def _build_name(self, name: str) -> str:
        """As client-go: the object's name and the time, here one that never comes twice."""
        self._last_stamp = max(self._last_stamp + 1, time.time_ns())
        return _join_name(name, f"{self._last_stamp:x}")

    def _spend(self, identity: _Identity) -> bool:
        """Take one from the object's budget; False when there is none left."""
        now = asyncio.get_running_loop().time()
        tokens, since = self._budgets.get(identity, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - since) / REFILL_SECONDS)
        allowed = tokens >= 1.0
        self._budgets.put(identity, (tokens - 1.0 if allowed else tokens, now))
        return allowed


def _build_note(
    regarding: KubeObject, kind: str, reason: str, message: str, when: datetime
) -> _Note:
    reference = build_object_reference(regarding)
    return _Note(
        identity=(
            reference["kind"],
            reference.get("namespace", ""),
            reference["name"],
            reference["uid"],
        ),
        reference=reference,
        type=kind,
        reason=reason[:MAX_REASON_CHARACTERS],
        message=_printable(message)[:MAX_MESSAGE_CHARACTERS],
        noted_at=when,
    )


def _build_copy(copy: _Copy, namespace: str) -> KubeObject:
    source = {"component": copy.component, "host": copy.host}
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": copy.name, "namespace": namespace},
        "involvedObject": copy.note.reference,
        "type": copy.note.type,
        "reason": copy.note.reason,
        "message": copy.note.message,
        "count": copy.count,
        "firstTimestamp": _format_time(copy.first_time),
        "lastTimestamp": _format_time(copy.note.noted_at),
        "source": {key: text for key, text in source.items() if text},
        "reportingComponent": copy.component,
        "reportingInstance": copy.host,
    }


def _join_name(name: str, suffix: str) -> str:
    if not is_dns_subdomain(name):
        name = "event"
    return f"{name[: MAX_DNS_SUBDOMAIN - len(suffix) - 1].rstrip('-.')}.{suffix}"


def _text(note: _Note) -> str:
    kind, namespace, name, _ = note.identity
    return f"{kind} {NamespacedName(namespace, name)}"


def _printable(text: str) -> str:
    """The text without what can't be UTF-8, as output of a container may hold anything."""
    return text.encode(errors="replace").decode()


def _format_time(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
