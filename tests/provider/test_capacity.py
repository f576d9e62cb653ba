"""The ledger equals a recount from scratch, whatever the order of events."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from hypothesis import given, strategies as st

from provider.capacity import CapacityLedger
from provider.requests import NOTHING, add_resources
from vkubelet.kube.objects import NamespacedName

NODES = ("", "gpu-1", "gpu-2", "cpu-1")
VIRTUAL_NODES = ("cloud", "cloud-gpu")
UIDS = ("", "uid-1", "uid-2", "uid-3")

amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "pods"]),
    st.decimals(min_value="0.001", max_value=1000, places=3),
    max_size=3,
)


@dataclass(frozen=True)
class RemoteSet:
    name: str
    node: str
    home_uid: str
    requests: dict[str, Decimal]


@dataclass(frozen=True)
class RemoteRemoved:
    name: str


@dataclass(frozen=True)
class HomeSet:
    uid: str
    virtual_node: str
    requests: dict[str, Decimal]


@dataclass(frozen=True)
class HomeRemoved:
    uid: str


Event = RemoteSet | RemoteRemoved | HomeSet | HomeRemoved

pod_names = st.sampled_from(["a", "b", "c", "d"])
events = st.one_of(
    st.builds(
        RemoteSet, pod_names, st.sampled_from(NODES), st.sampled_from(UIDS), requests=amounts
    ),
    st.builds(RemoteRemoved, pod_names),
    st.builds(HomeSet, st.sampled_from(UIDS[1:]), st.sampled_from(VIRTUAL_NODES), amounts),
    st.builds(HomeRemoved, st.sampled_from(UIDS[1:])),
)


def key(name: str) -> NamespacedName:
    return NamespacedName("ns", name)


def replay(ledger: CapacityLedger, history: Sequence[Event]) -> None:
    for event in history:
        match event:
            case RemoteSet(name, node, home_uid, requests):
                ledger.set_remote_pod(key(name), node=node, requests=requests, home_uid=home_uid)
            case RemoteRemoved(name):
                ledger.remove_remote_pod(key(name))
            case HomeSet(uid, virtual_node, requests):
                ledger.set_home_pod(uid, virtual_node=virtual_node, requests=requests)
            case HomeRemoved(uid):
                ledger.remove_home_pod(uid)


def recount(history: Sequence[Event]) -> tuple[dict[str, object], dict[str, object]]:
    """What the sums must be, from what is left at the end."""
    remote: dict[str, RemoteSet] = {}
    home: dict[str, HomeSet] = {}
    for event in history:
        match event:
            case RemoteSet():
                remote[event.name] = event
            case RemoteRemoved(name):
                remote.pop(name, None)
            case HomeSet():
                home[event.uid] = event
            case HomeRemoved(uid):
                home.pop(uid, None)
    placed = {pod.home_uid for pod in remote.values() if pod.node and pod.home_uid}
    used: dict[str, object] = {
        node: add_resources(pod.requests for pod in remote.values() if pod.node == node)
        for node in NODES
        if node
    }
    returned: dict[str, object] = {
        node: add_resources(
            pod.requests for pod in home.values() if pod.virtual_node == node and pod.uid in placed
        )
        for node in VIRTUAL_NODES
    }
    return used, returned


@given(st.lists(events, max_size=40))
def test_equals_a_recount_whatever_the_order(history: list[Event]) -> None:
    ledger = CapacityLedger()
    replay(ledger, history)
    used, returned = recount(history)
    assert {node: dict(ledger.used(node)) for node in used} == used
    assert {node: dict(ledger.returned(node)) for node in returned} == returned


@given(st.lists(events, max_size=40))
def test_tells_of_each_node_whose_sums_changed(history: list[Event]) -> None:
    told: set[str] = set()
    ledger = CapacityLedger(told.add, told.add)
    for event in history:
        before = {
            **{node: dict(ledger.used(node)) for node in NODES},
            **{node: dict(ledger.returned(node)) for node in VIRTUAL_NODES},
        }
        told.clear()
        replay(ledger, [event])
        changed = {
            *(node for node in NODES if dict(ledger.used(node)) != before[node]),
            *(node for node in VIRTUAL_NODES if dict(ledger.returned(node)) != before[node]),
        }
        assert changed <= told


def test_a_pod_counts_before_its_node_is_known_and_until_it_is_gone() -> None:
    ledger = CapacityLedger()
    ledger.set_remote_pod(key("a"), node="gpu-1", requests={"cpu": Decimal(2)})
    assert ledger.used("gpu-1") == {"cpu": Decimal(2)}
    ledger.set_remote_pod(key("a"), node="gpu-1", requests=NOTHING)
    assert ledger.used("gpu-1") == {}


def test_a_home_pod_is_given_back_from_when_its_remote_pod_has_a_node() -> None:
    ledger = CapacityLedger()
    ledger.set_home_pod("uid-1", virtual_node="cloud", requests={"cpu": Decimal(1)})
    ledger.set_remote_pod(key("a"), node="", requests={"cpu": Decimal(1)}, home_uid="uid-1")
    assert ledger.returned("cloud") == {}
    ledger.set_remote_pod(key("a"), node="gpu-1", requests={"cpu": Decimal(2)}, home_uid="uid-1")
    assert ledger.returned("cloud") == {"cpu": Decimal(1)}
    ledger.remove_remote_pod(key("a"))
    assert ledger.returned("cloud") == {}
