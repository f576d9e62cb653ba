import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.vkubelet.kube.serving import connect, refuse, serve
from vkubelet.kube.events import BURST, MAX_QUEUED, REFILL_SECONDS, REPEAT_SECONDS, EventRecorder

pytestmark = pytest.mark.virtual_time

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "ns", "name": "web-0", "uid": "u1", "resourceVersion": "7"},
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu", "uid": "u2"}}


def pod(name: str) -> dict[str, Any]:
    return {**POD, "metadata": {"namespace": "ns", "name": name, "uid": f"uid of {name}"}}


class Events:
    """The events collection of an API server, and what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.failures: list[web.Response] = []
        self.stored: set[str] = set()

    async def answer(self, request: web.Request) -> web.Response:
        body = msgspec.json.decode(await request.read(), type=dict[str, Any])
        self.calls.append((request.method, request.path, body))
        if self.failures:
            return self.failures.pop(0)
        if request.method == "POST":
            self.stored.add(body["metadata"]["name"])
        elif request.path.rpartition("/")[2] not in self.stored:
            return refuse(404, "NotFound")
        return web.json_response(body, status=201 if request.method == "POST" else 200)


@asynccontextmanager
async def recording(
    folder: Path, events: Events, *, run: bool = True
) -> AsyncIterator[EventRecorder]:
    async with serve(events.answer) as url, connect(folder, url) as client:
        recorder = EventRecorder(client, component="vkubelet", host="gpu")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(recorder.run()) if run else None
            yield recorder
            if running is not None:
                running.cancel()


async def settle() -> None:
    """Let everything noted be written, in virtual time."""
    await asyncio.sleep(1)


async def test_event(tmp_path: Path) -> None:
    events = Events()
    async with recording(tmp_path, events) as recorder:
        recorder.record_nowait(POD, type="Warning", reason="Failed", message="it \ud800 broke")
        await settle()
    [(method, path, body)] = events.calls
    assert (method, path) == ("POST", "/api/v1/namespaces/ns/events")
    name = body["metadata"].pop("name")
    assert re.fullmatch(r"web-0\.[0-9a-f]{16}", name)
    first, last = body.pop("firstTimestamp"), body.pop("lastTimestamp")
    assert first == last
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first)
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "web-0",
            "uid": "u1",
            "resourceVersion": "7",
        },
        "type": "Warning",
        "reason": "Failed",
        "message": "it ? broke",
        "count": 1,
        "source": {"component": "vkubelet", "host": "gpu"},
        "reportingComponent": "vkubelet",
        "reportingInstance": "gpu",
    }


async def test_cluster_scoped_objects_have_theirs_in_default(tmp_path: Path) -> None:
    events = Events()
    async with recording(tmp_path, events) as recorder:
        recorder.record_nowait(NODE, type="Normal", reason="Ready", message="m")
        await settle()
    [(_, path, body)] = events.calls
    assert path == "/api/v1/namespaces/default/events"
    assert "namespace" not in body["involvedObject"]


async def test_repeated_event_raises_the_count(tmp_path: Path) -> None:
    events = Events()
    async with recording(tmp_path, events) as recorder:
        for _ in range(3):
            recorder.record_nowait(POD, type="Normal", reason="Pulled", message="m")
        recorder.record_nowait(POD, type="Normal", reason="Pulled", message="another")
        recorder.record_nowait(NODE, type="Normal", reason="Pulled", message="m")
        await settle()
        await asyncio.sleep(REPEAT_SECONDS)
        recorder.record_nowait(POD, type="Normal", reason="Pulled", message="m")
        await settle()
    of_pod = [
        call for call in events.calls if "/ns/" in call[1] and call[2].get("message") != "another"
    ]
    name = of_pod[0][2]["metadata"]["name"]
    assert [method for method, _, _ in of_pod] == ["POST", "PATCH", "PATCH", "POST"]
    assert [path for _, path, _ in of_pod[1:3]] == [f"/api/v1/namespaces/ns/events/{name}"] * 2
    assert [body["count"] for _, _, body in of_pod] == [1, 2, 3, 1]
    assert of_pod[1][2].keys() == {"count", "lastTimestamp"}
    assert len(events.calls) == 6
    assert len(events.stored) == 4


async def test_event_that_was_removed_is_written_anew(tmp_path: Path) -> None:
    events = Events()
    async with recording(tmp_path, events) as recorder:
        recorder.record_nowait(POD, type="Normal", reason="Pulled", message="m")
        await settle()
        events.stored.clear()
        recorder.record_nowait(POD, type="Normal", reason="Pulled", message="m")
        await settle()
    assert [method for method, _, _ in events.calls] == ["POST", "PATCH", "POST"]
    assert events.calls[2][2]["count"] == 1


async def test_failures_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    events.failures = [refuse(403, "Forbidden", message="being terminated"), refuse(500, "x")]
    async with recording(tmp_path, events) as recorder:
        for message in ("one", "two", "three"):
            recorder.record_nowait(POD, type="Normal", reason="Pulled", message=message)
        await settle()
    assert len(events.stored) == 1
    warnings = [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]
    assert warnings == [
        "Pod ns/web-0: event Pulled dropped: 403 Forbidden: being terminated (one)",
        "Pod ns/web-0: event Pulled dropped: 500 x: no (two)",
    ]


async def test_events_that_go_with_their_namespace_are_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events = Events()
    events.failures = [refuse(403, "Forbidden", message="namespace ns is being terminated")]
    async with recording(tmp_path, events) as recorder:
        recorder.record_nowait(POD, type="Normal", reason="Killing", message="one")
        await settle()
    assert not events.stored
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_one_object_gets_so_many_and_no_more(tmp_path: Path) -> None:
    events = Events()
    async with recording(tmp_path, events) as recorder:
        for number in range(2 * BURST):
            recorder.record_nowait(POD, type="Normal", reason="Pulled", message=str(number))
        recorder.record_nowait(NODE, type="Normal", reason="Other", message="passes")
        await settle()
        assert len(events.calls) == BURST + 1
        await asyncio.sleep(2 * REFILL_SECONDS)
        for number in range(BURST):
            recorder.record_nowait(POD, type="Normal", reason="Later", message=str(number))
        await settle()
    assert len(events.calls) == BURST + 3


async def test_full_queue(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    async with recording(tmp_path, events, run=False) as recorder:
        for number in range(2 * MAX_QUEUED):
            recorder.record_nowait(pod(f"p{number}"), type="Normal", reason="R", message="m")
    dropped = [record for record in caplog.records if "too many wait" in record.getMessage()]
    assert len(dropped) >= MAX_QUEUED
    assert events.calls == []


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a" * 253, "a" * 236 + "."),
        ("a" * 235 + "." + "b" * 17, "a" * 235 + "."),
        ("system:node", "event."),
        ("a.b-c", "a.b-c."),
    ],
)
async def test_names_are_valid_and_differ(tmp_path: Path, name: str, start: str) -> None:
    events = Events()
    async with recording(tmp_path, events) as recorder:
        for number in range(3):
            recorder.record_nowait(pod(name), type="Normal", reason="R", message=str(number))
        await settle()
    names = [body["metadata"]["name"] for _, _, body in events.calls]
    assert len(set(names)) == 3
    for written in names:
        assert len(written) <= 253
        assert re.fullmatch(re.escape(start) + "[0-9a-f]{16}", written)


class Copied(Events):
    """Event objects that are there may not be created again."""

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            body = msgspec.json.decode(await request.read(), type=dict[str, Any])
            if body["metadata"]["name"] in self.stored:
                self.calls.append(("refused", request.path, body))
                return refuse(409, "AlreadyExists")
        return await super().answer(request)


def copy(recorder: EventRecorder, *, count: int = 1, minute: int = 0, identity: str = "e1") -> None:
    recorder.copy_nowait(
        POD,
        identity=identity,
        type="Warning",
        reason="BackOff",
        message="again",
        count=count,
        first_time=datetime(2026, 1, 1, tzinfo=UTC),
        last_time=datetime(2026, 1, 1, 1, minute, tzinfo=timezone(timedelta(hours=1))),
        component="kubelet",
        host="node-1",
    )


async def test_an_event_of_somebody_elses_keeps_its_count_times_and_source(tmp_path: Path) -> None:
    events = Copied()
    async with recording(tmp_path, events) as recorder:
        copy(recorder, count=3, minute=5)
        await settle()
    [(_, path, body)] = events.calls
    assert path == "/api/v1/namespaces/ns/events"
    assert (body["count"], body["firstTimestamp"], body["lastTimestamp"]) == (
        3,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:05:00Z",
    )
    assert body["source"] == {"component": "kubelet", "host": "node-1"}
    assert body["reportingComponent"] == "kubelet"
    assert body["involvedObject"]["uid"] == "u1"


async def test_the_same_event_is_one_also_after_a_restart(tmp_path: Path) -> None:
    events = Copied()
    async with recording(tmp_path, events) as recorder:
        copy(recorder)
        copy(recorder)
        copy(recorder, count=2, minute=1)
        copy(recorder, identity="e2")
        await settle()
    async with recording(tmp_path, events) as recorder:
        copy(recorder, count=5, minute=2)
        await settle()
    methods = [method for method, _, _ in events.calls]
    assert methods == ["POST", "PATCH", "POST", "refused", "PATCH"]
    assert len(events.stored) == 2
    assert events.calls[-1][2] == {
        "count": 5,
        "lastTimestamp": "2026-01-01T00:02:00Z",
        "message": "again",
    }


async def test_a_copied_event_that_was_removed_is_written_anew(tmp_path: Path) -> None:
    events = Copied()
    async with recording(tmp_path, events) as recorder:
        copy(recorder)
        await settle()
        events.stored.clear()
        copy(recorder, count=2)
        await settle()
    assert [method for method, _, _ in events.calls] == ["POST", "PATCH", "POST"]
