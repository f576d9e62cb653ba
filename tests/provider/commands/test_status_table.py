"""The status for people: fits 80 columns, loses nothing."""

from io import StringIO

from rich.console import Console

from provider.commands.status_table import MAX_REASONS, build_overview_table
from provider.overview.collect import build_overview
from provider.overview.report import Overview
from provider.vitals import ApiErrors, Lag, Vitals
from tests.provider.overview.values import NOW, build_lock, build_pod, build_virtual_node
from vkubelet.kube.objects import KubeObject

VITALS = Vitals(
    version="0.1.0",
    started_at="2027-01-01T09:00:00Z",
    api_errors={
        "home": ApiErrors(recent=0, total=2),
        "remote": ApiErrors(recent=3, total=14),
    },
    create_lag=Lag(p50=0.012, p99=0.23),
    certificates={"cloud": "2027-01-31T12:00:00Z"},
)


def show(overview: Overview) -> str:
    file = StringIO()
    Console(file=file, width=80).print(build_overview_table(overview))
    text = file.getvalue()
    assert all(len(line) <= 80 for line in text.splitlines())
    return " ".join(text.split())


def overview(nodes: list[KubeObject], pods: list[KubeObject], *locks: KubeObject) -> Overview:
    return build_overview(nodes, pods, locks, NOW)


def test_all_there_is_to_a_peering() -> None:
    pods = [build_pod("a"), build_pod("b", phase="Pending", reason="Missing", message="of it")]
    text = show(overview([build_virtual_node("cloud")], pods, build_lock(vitals=VITALS)))
    assert text.startswith("Peering cloud: ready; version 0.1.0, up 3h lock:")
    assert "kube-system/vkubelet-cloud, held by vkubelet-0_1, renewed 3s ago" in text
    assert "home 0 in 5 minutes (2 since the start), remote 3 in 5 minutes (14" in text
    assert "pods 12 ms (99 %: 230 ms), statuses none lately" in text
    assert "pods: 1 Pending, 1 Running" in text
    assert "1 Pending Missing demo/b: of it" in text
    assert "cloud True 2/3 3500m/8 12Gi/32Gi 2 6Gi 2/88 30d" in text
    assert "warning" not in text


def test_why_a_node_is_not_ready_and_what_else_it_offers() -> None:
    ready = {"status": "False", "reason": "RemoteUnreachable", "message": "no answer"}
    node = build_virtual_node(
        "cloud",
        ready=ready,
        spec={"unschedulable": True},
        capacity={"nvidia.com/gpu": "4", "hugepages-2Mi": "0"},
        allocatable={"nvidia.com/gpu": "1", "hugepages-2Mi": "0"},
    )
    text = show(overview([node], [], build_lock()))
    assert "cloud False, 2/3" in text
    assert "cordoned cloud: Rem" in text
    assert "cloud: RemoteUnreachable: no answer" in text
    assert "cloud: nvidia.com/gpu 1/4" in text
    assert "hugepages" not in text


def test_members_that_all_take_no_pods() -> None:
    node = build_virtual_node(
        "cloud",
        ready={"reason": "NoEligibleNodes", "message": "0 of 3 are ready"},
        annotations={"vkubelet.io/members": '{"eligible":0,"members":3}'},
    )
    text = show(overview([node], [], build_lock()))
    assert "cloud: NoEligibleNodes: 0 of 3 are ready" in text
    assert "0/3" in text


def test_nobody_serves_it() -> None:
    text = show(overview([build_virtual_node("cloud")], [], build_lock(holder="")))
    assert "Peering cloud: not served" in text
    assert "held by nobody, last written 3s ago" in text
    assert "warning: cloud: no process serves it" in text


def test_a_holder_that_died() -> None:
    lock = build_lock(renewed="2027-01-01T10:00:00Z")
    text = show(overview([], [], lock))
    assert "held by vkubelet-0_1 (no more), renewed 2h ago" in text


def test_not_ready_yet() -> None:
    vitals = Vitals(version="0.1.0", not_ready="waiting for the first sync")
    text = show(overview([], [], build_lock(vitals=vitals)))
    assert "Peering cloud: not ready, waiting for the first sync; version 0.1.0" in text
    assert "API errors: none" in text


def test_nothing_at_all() -> None:
    assert show(overview([], [])) == "no peering: this cluster has no virtual nodes of ours"


def test_a_certificate_that_has_expired() -> None:
    vitals = Vitals(certificates={"cloud": "2027-01-01T00:00:00Z"})
    text = show(overview([build_virtual_node("cloud")], [], build_lock(vitals=vitals)))
    assert text.endswith(" expired") or " expire " in text


def test_many_nodes_with_long_names_and_many_reasons() -> None:
    nodes = [build_virtual_node(f"{'x' * 200}-{number}") for number in range(30)]
    pods = [
        build_pod(f"p{number}", "x" * 200 + "-0", phase="Pending", reason=f"Reason{number:02}")
        for number in range(MAX_REASONS + 3)
    ]
    text = show(overview(nodes, pods, build_lock(vitals=VITALS)))
    assert "Reason09" in text
    assert "Reason10" not in text
    assert "3 for other reasons; -o yaml has them all" in text


def test_trouble_is_told_below() -> None:
    seen = overview([build_virtual_node("cloud")], [], build_lock())
    assert show(seen.with_trouble("home can't be looked at now: x")).endswith(": x")
