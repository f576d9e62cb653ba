"""Events of the remote cluster on home pods: all that concern them, each once."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from provider.reflection.events import IDLE_SECONDS, RemoteEvent, decode_event
from tests.fakes.api_server import FakeApiServer
from tests.provider.reflection.world import (
    NAMES,
    START,
    World,
    build_config_map,
    build_home_pod,
    open_world,
    run_world,
    settle,
    use_config_map,
)
from vkubelet.interface import PodEvent, PodRef
from vkubelet.kube.objects import PODS, KubeObject
from vkubelet.times import format_time

pytestmark = pytest.mark.virtual_time

REF = PodRef("demo", "web", "uid-web")


def build_event(uid: str, name: str = "web.1", **fields: Any) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "demo-r"},
        "involvedObject": {"kind": "Pod", "namespace": "demo-r", "name": "web", "uid": uid},
        "type": "Warning",
        "reason": "BackOff",
        "message": "Back-off restarting failed container",
        "count": 3,
        "firstTimestamp": format_time(START),
        "lastTimestamp": format_time(START + timedelta(seconds=5)),
        "source": {"component": "kubelet", "host": "node-1"},
        **fields,
    }


async def start(world: World) -> str:
    """Have a pod on both sides; returns the remote one's UID."""
    await world.apply(build_home_pod())
    await settle()
    return str(world.remote.get(PODS, "demo-r", "web")["metadata"]["uid"])


async def test_an_event_arrives_with_reason_count_and_times() -> None:
    async with open_world() as world:
        uid = await start(world)
        stored = world.remote.put(build_event(uid))
        await settle()
        assert world.events_of(PodEvent) == [
            PodEvent(
                ref=REF,
                identity=stored["metadata"]["uid"],
                type="Warning",
                reason="BackOff",
                message="Back-off restarting failed container",
                count=3,
                first_time=START,
                last_time=START + timedelta(seconds=5),
                component="kubelet",
                host="node-1",
            )
        ]
        world.remote.put(build_event(uid, count=4))
        await settle()
        first, second = world.events_of(PodEvent)
        assert (second.identity, second.count) == (first.identity, 4)


async def test_an_event_names_what_home_knows() -> None:
    async with open_world() as world:
        world.home.put(build_config_map("settings"))
        await world.apply(build_home_pod(**use_config_map("settings")))
        await settle()
        uid = world.remote.get(PODS, "demo-r", "web")["metadata"]["uid"]
        copy = NAMES.copy("ConfigMap", "settings")
        world.remote.put(build_event(uid, message=f'configmap "{copy}" not found'))
        await settle()
        (event,) = world.events_of(PodEvent)
        assert event.message == 'configmap "settings" not found'


async def test_only_events_on_our_pods_from_who_places_runs_and_ends_them() -> None:
    async with open_world() as world:
        uid = await start(world)
        world.remote.put(build_event("another pod's"))
        world.remote.put(build_event(uid, "web.2", source={"component": "my-operator"}))
        world.remote.put(build_event(uid, "web.3", source={}))
        await settle()
        assert world.events_of(PodEvent) == []
        for number, component in enumerate(("default-scheduler", "taint-eviction-controller")):
            event = build_event(uid, f"ok.{number}", source={}, reportingComponent=component)
            world.remote.put(event)
        await settle()
        assert len(world.events_of(PodEvent)) == 2


async def test_an_event_that_comes_before_its_pod_is_known_is_not_lost() -> None:
    async with open_world() as world:
        await start(world)  # the namespace is watched from now on
        pod = build_home_pod("next", uid="uid-next")
        created = await world.apply(pod)
        assert created == []
        uid = world.remote.get(PODS, "demo-r", "next")["metadata"]["uid"]
        world.remote.put(build_event(uid))
        await settle()
        (event,) = world.events_of(PodEvent)
        assert event.ref.name == "next"


async def test_only_namespaces_with_our_pods_are_watched_and_only_events_on_pods() -> None:
    async with open_world() as world:
        assert world.remote.calls("watch events") == []
        await start(world)
        (call,) = world.remote.calls("watch events")
        assert call.path == "/api/v1/namespaces/demo-r/events"
        assert call.query["fieldSelector"] == "involvedObject.kind=Pod"
        await world.end(build_home_pod())
        await settle(3 * IDLE_SECONDS)
        assert world.remote.watch_count("watch events") == 0


async def test_after_a_restart_recent_events_are_told_again_as_the_same_and_old_ones_not() -> None:
    async with FakeApiServer() as home, FakeApiServer() as remote:
        async with run_world(home, remote) as world:
            uid = await start(world)
            remote.put(build_event(uid))
            remote.put(
                build_event(uid, "old.1", lastTimestamp=format_time(START - timedelta(hours=1)))
            )
            await settle()
            before = {event.identity for event in world.events_of(PodEvent)}
            assert len(before) == 2
        async with run_world(home, remote) as world:
            (event,) = world.events_of(PodEvent)
            assert event.identity in before


def decode(**fields: Any) -> RemoteEvent:
    return decode_event(msgspec.json.encode({"metadata": {"uid": "e"}, **fields}))


def test_events_of_the_new_api_have_their_count_and_times_in_a_series() -> None:
    event = decode(
        eventTime="2026-01-01T00:00:00.000000Z",
        firstTimestamp=None,
        count=None,
        series={"count": 7, "lastObservedTime": "2026-01-01T00:01:00.000000Z"},
        reportingComponent="default-scheduler",
        reportingInstance="default-scheduler-host",
    ).build(REF, None)
    assert event is not None
    assert (event.count, event.first_time, event.last_time) == (
        7,
        START,
        START + timedelta(minutes=1),
    )
    assert (event.component, event.host) == ("default-scheduler", "default-scheduler-host")


def test_an_event_without_any_time_is_left_out() -> None:
    assert decode().build(REF, None) is None


def test_the_time_it_was_made_will_do() -> None:
    event = decode(metadata={"uid": "e", "creationTimestamp": "2026-01-01T00:00:00Z"}).build(
        REF, None
    )
    assert event is not None
    assert (event.count, event.first_time, event.last_time) == (1, START, START)
