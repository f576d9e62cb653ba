import pytest

from tests.vkubelet.server.harness import NODE, POD, FakeLookup
from vkubelet.errors import RequestError
from vkubelet.interface import PodRef
from vkubelet.kube.objects import KubeObject, decode_cached, encode_object
from vkubelet.server.lookup import (
    build_ref,
    find_pod,
    has_container,
    has_ended,
    is_running,
    list_running_containers,
    quote,
)


def test_pod_of_this_node() -> None:
    pod = find_pod(FakeLookup(), NODE, "ns", "pod")
    assert build_ref(pod) == PodRef("ns", "pod", "uid-1")
    names = ("c", "init", "debugger", "x", "")
    assert [has_container(pod, name) for name in names] == [True, True, True, False, False]


def test_pod_without_a_spec_has_no_container() -> None:
    assert not has_container(decode_cached(b'{"metadata":{}}'), "c")


@pytest.mark.parametrize(
    ("node_name", "namespace", "name"),
    [("virtual-1", "ns", "pod"), (NODE, "ns2", "pod"), (NODE, "ns", "pod2")],
)
def test_pods_of_other_nodes_do_not_exist(node_name: str, namespace: str, name: str) -> None:
    with pytest.raises(RequestError) as caught:
        find_pod(FakeLookup(), node_name, namespace, name)
    assert (caught.value.code, str(caught.value)) == (404, f'pod "{name}" does not exist\n')


@pytest.mark.parametrize(
    ("container", "runs"),
    [("c", True), ("init", True), ("debugger", True), ("ended", False), ("x", False)],
)
async def test_what_runs(container: str, runs: bool) -> None:
    pods = FakeLookup()
    assert await is_running(pods, find_pod(pods, NODE, "ns", "pod"), container) is runs


def name_states(*states: str) -> list[KubeObject]:
    return [{"name": f"{i}-{state}", "state": {state: {}}} for i, state in enumerate(states)]


@pytest.mark.parametrize(
    ("status", "running"),
    [
        ({"containerStatuses": name_states("running", "terminated", "running")}, 2),
        ({"initContainerStatuses": name_states("running")}, 1),
        ({"ephemeralContainerStatuses": name_states("waiting", "running")}, 1),
        ({"containerStatuses": [{"name": "c", "state": {}}, {"name": "d"}]}, 0),
        ({"containerStatuses": []}, 0),
        ({}, 0),
    ],
)
def test_running_containers(status: KubeObject, running: int) -> None:
    names = list_running_containers(encode_object({**POD, "status": status}))
    assert len(names) == running
    assert all(name.endswith("running") for name in names)


@pytest.mark.parametrize(
    ("phase", "ended"),
    [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True), ("", False)],
)
def test_what_has_ended(phase: str, ended: bool) -> None:
    assert has_ended(encode_object({**POD, "status": {"phase": phase}})) is ended


@pytest.mark.parametrize(
    ("current", "runs"),
    [
        (POD, True),
        ({**POD, "metadata": {**POD["metadata"], "uid": "uid-2"}}, False),
        ({**POD, "status": {}}, False),
        (None, False),
    ],
)
async def test_what_a_caller_has_seen_run_first(current: KubeObject | None, runs: bool) -> None:
    pods = FakeLookup()
    pods.pod = {**POD, "status": {"containerStatuses": [{"name": "c"}]}}
    pods.current = current
    assert await is_running(pods, find_pod(pods, NODE, "ns", "pod"), "c") is runs


def test_quoting() -> None:
    assert quote('a"b\\ü') == '"a\\"b\\\\ü"'
