import copy
from typing import Any

import pytest

from provider.translation.dependents import DependentNames
from provider.translation.status import read_observed_generation, translate_status


def remote(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {}, "status": status}


def condition(kind: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z", **more}


@pytest.mark.parametrize(
    ("noted", "generation", "observed", "goes_by"),
    [
        ("4", 2, 2, 4),
        ("4", 2, 3, 4),
        ("4", 2, 1, None),
        ("4", 2, None, None),
        ("4", None, 1, 4),
        (None, 2, 2, None),
        ("x", 2, 2, None),
    ],
)
def test_the_generation_of_the_home_pod_that_it_goes_by(
    noted: str | None, generation: int | None, observed: int | None, goes_by: int | None
) -> None:
    pod = remote() if observed is None else remote(observedGeneration=observed)
    if generation is not None:
        pod["metadata"]["generation"] = generation
    if noted is not None:
        pod["metadata"]["annotations"] = {"vkubelet.io/home-generation": noted}
    assert read_observed_generation(pod) == goes_by


def test_a_running_pod() -> None:
    app = {"name": "app", "ready": True, "started": True, "state": {"running": {}}, "user": {}}
    pod = remote(
        phase="Running",
        startTime="2026-01-01T00:00:00Z",
        hostIP="10.0.0.9",
        hostIPs=[{"ip": "10.0.0.9"}],
        podIP="10.1.0.4",
        podIPs=[{"ip": "10.1.0.4"}],
        qosClass="Burstable",
        observedGeneration=3,
        nominatedNodeName="n",
        resourceClaimStatuses=[{}],
        conditions=[condition("Ready"), condition("PodScheduled")],
        containerStatuses=[app],
    )
    before = copy.deepcopy(pod)
    assert translate_status(pod, host_address="192.0.2.1") == {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [condition("Ready")],
        "containerStatuses": [app],
        "hostIP": "192.0.2.1",
        "hostIPs": [{"ip": "192.0.2.1"}],
    }
    assert pod == before


@pytest.mark.parametrize("pod", [{}, {"status": None}, {"status": {}}, remote(conditions=None)])
def test_what_is_missing_is_empty(pod: dict[str, Any]) -> None:
    expected = {"phase": "Pending", "conditions": []}
    assert translate_status(pod, host_address="") == expected


def test_statuses_of_all_containers_cross() -> None:
    def statuses(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "restartCount": 1} for name in names]

    pod = remote(
        phase="Running",
        initContainerStatuses=statuses("istio-init", "side"),
        containerStatuses=statuses("app", "istio-proxy"),
        ephemeralContainerStatuses=statuses("debug"),
    )
    status = translate_status(pod, host_address="")
    assert {key: status[key] for key in pod["status"]} == pod["status"]


def test_what_a_container_waits_for_has_the_name_that_home_knows() -> None:
    copy_name = DependentNames("h-1", "cloud", "shop").copy("Secret", "key")
    waiting = {"reason": "CreateContainerConfigError", "message": f'secret "{copy_name}" not found'}
    pod = remote(containerStatuses=[{"name": "app", "state": {"waiting": waiting}}])
    pod["metadata"] |= {
        "namespace": "shop-home",
        "labels": {"vkubelet.io/home-cluster": "h-1", "vkubelet.io/peering": "cloud"},
        "annotations": {
            "vkubelet.io/home-namespace": "shop",
            "vkubelet.io/dependents": "Secret/key",
        },
    }
    (shown,) = translate_status(pod, host_address="")["containerStatuses"]
    assert shown["state"]["waiting"]["message"] == 'secret "key" not found'


def test_only_the_kubelets_conditions_cross_and_without_generations() -> None:
    owned = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"]
    owned += ["PodResizePending", "PodResizeInProgress", "DisruptionTarget"]
    others = ["PodScheduled", "example.com/gate"]
    pod = remote(conditions=[condition(kind, observedGeneration=2) for kind in owned + others])
    status = translate_status(pod, host_address="")
    assert status["conditions"] == [condition(kind) for kind in owned]


def test_a_pod_that_the_remote_scheduler_cannot_place_says_so() -> None:
    why = "0/4 nodes are available: 4 Insufficient cpu."
    pod = remote(
        phase="Pending",
        conditions=[condition("PodScheduled", "False", reason="Unschedulable", message=why)],
    )
    status = translate_status(pod, host_address="")
    assert status == {
        "phase": "Pending",
        "conditions": [],
        "reason": "RemoteUnschedulable",
        "message": why,
    }


def test_a_gated_pod_says_so() -> None:
    pod = remote(conditions=[condition("PodScheduled", "False", reason="SchedulingGated")])
    assert translate_status(pod, host_address="")["reason"] == "RemoteSchedulingGated"


def test_a_scheduled_pending_pod_has_no_reason() -> None:
    pod = remote(phase="Pending", conditions=[condition("PodScheduled")])
    assert "reason" not in translate_status(pod, host_address="")


def test_how_a_pod_failed_crosses() -> None:
    ended = [
        {"name": "app", "state": {"terminated": {"exitCode": 1}}},
    ]
    pod = remote(phase="Failed", reason="Evicted", message="low on memory", containerStatuses=ended)
    status = translate_status(pod, host_address="")
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert status["message"] == "low on memory"
    assert status["containerStatuses"] == ended


def test_pod_addresses_are_published_only_where_they_can_be_reached() -> None:
    pod = remote(phase="Running", podIP="10.1.0.4", podIPs=[{"ip": "10.1.0.4"}])
    assert "podIP" not in translate_status(pod, host_address="")
    routed = translate_status(pod, host_address="", publish_pod_ips=True)
    assert (routed["podIP"], routed["podIPs"]) == ("10.1.0.4", [{"ip": "10.1.0.4"}])
