"""What is written into a home pod's status."""

from typing import Any

import pytest

from tests.fakes.api_objects import strategic_merge
from vkubelet.kube.objects import KubeObject
from vkubelet.pods import status
from vkubelet.pods.patch import WantedStatus, build_patch

NOW = "2026-01-02T03:04:05Z"
BEFORE = "2026-01-01T00:00:00Z"
ADDRESS = "10.0.0.9"
RUNNING = {"running": {"startedAt": BEFORE}}


def build_pod(*, gates: tuple[str, ...] = (), **fields: Any) -> KubeObject:
    spec: KubeObject = {"containers": [{"name": "c"}]}
    if gates:
        spec["readinessGates"] = [{"conditionType": gate} for gate in gates]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "a", "name": "p", "uid": "1"},
        "spec": spec,
        "status": {"phase": "Pending", **fields},
    }


def condition(name: str, value: str = "True", **fields: str) -> KubeObject:
    return {"type": name, "status": value, "lastTransitionTime": BEFORE, **fields}


def container(name: str = "c", *, restarts: int = 0, **fields: Any) -> KubeObject:
    return {"name": name, "restartCount": restarts, "state": RUNNING, "ready": True, **fields}


def build_behind(**fields: Any) -> KubeObject:
    conditions = [condition(name) for name in ("Initialized", "ContainersReady", "Ready")]
    return {
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": [container()],
        "startTime": BEFORE,
        **fields,
    }


def patched(home: KubeObject, wanted: WantedStatus | None) -> KubeObject:
    """The home pod after the write, and nothing more to write."""
    assert wanted is not None
    patch = build_patch(home, wanted, now=NOW)
    assert patch is not None
    assert patch["metadata"] == {"uid": "1"}
    after: KubeObject = strategic_merge(home, patch)
    assert build_patch(after, wanted, now="2026-09-09T09:09:09Z") is None
    return after


def reflected(home: KubeObject, behind: KubeObject, **options: Any) -> KubeObject:
    after = patched(home, status.reflect(home, behind, address=ADDRESS, **options))
    found: KubeObject = after["status"]
    return found


def by_type(found: KubeObject) -> dict[str, KubeObject]:
    return {entry["type"]: entry for entry in found["conditions"]}


def test_running_pod() -> None:
    home = build_pod(conditions=[condition("PodScheduled")], qosClass="BestEffort")
    found = reflected(
        home, build_behind(qosClass="Burstable", observedGeneration=4, podIP="1.1.1.1")
    )
    assert found["phase"] == "Running"
    assert found["hostIP"] == ADDRESS
    assert found["hostIPs"] == [{"ip": ADDRESS}]
    assert found["podIP"] == "1.1.1.1"
    assert found["startTime"] == BEFORE
    assert found["qosClass"] == "BestEffort"
    assert "observedGeneration" not in found
    conditions = by_type(found)
    assert conditions["PodScheduled"] == condition("PodScheduled")
    assert conditions["Ready"] == {"type": "Ready", "status": "True", "lastTransitionTime": NOW}


def test_unknown_fields_travel() -> None:
    assert reflected(build_pod(), build_behind(newField={"a": 1}))["newField"] == {"a": 1}


@pytest.mark.parametrize("behind", [{}, {"conditions": None, "containerStatuses": None}])
def test_missing_status_is_an_empty_one(behind: KubeObject) -> None:
    found = reflected(build_pod(), behind)
    assert found["phase"] == "Pending"
    assert "conditions" not in found


def test_conditions_of_others_stay() -> None:
    foreign = [condition("PodScheduled"), condition("DisruptionTarget"), condition("my/gate")]
    behind = build_behind()
    behind["conditions"] += [
        condition("PodScheduled", "False"),
        condition("DisruptionTarget", "False"),
        condition("my/gate", "False"),
    ]
    found = reflected(build_pod(conditions=foreign), behind)
    assert found["conditions"][:3] == foreign


@pytest.mark.parametrize(
    ("policy", "terminating", "phase"),
    [
        ("Always", True, "Running"),
        ("Always", False, "Failed"),
        ("OnFailure", True, "Failed"),
        ("Never", True, "Failed"),
    ],
)
def test_a_pod_killed_by_a_deletion_nobody_here_asked_for_has_not_ended(
    policy: str, terminating: bool, phase: str
) -> None:
    home = build_pod(phase="Running")
    home["spec"]["restartPolicy"] = policy
    found = reflected(home, build_behind(phase="Failed"), terminating=terminating)
    assert found["phase"] == phase


def test_transition_time_stays_while_the_status_does() -> None:
    home = build_pod(conditions=[condition("Ready", reason="Old")])
    ready = by_type(reflected(home, build_behind()))["Ready"]
    assert ready == {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}


def test_condition_that_is_no_longer_reported_turns_false() -> None:
    home = build_pod(conditions=[condition("Ready"), condition("Initialized")])
    found = by_type(reflected(home, {"phase": "Pending"}))
    assert found["Ready"]["status"] == "False"
    assert found["Initialized"]["status"] == "False"
    assert found["Ready"]["lastTransitionTime"] == NOW


@pytest.mark.parametrize(
    ("conditions", "value", "message"),
    [
        ([], "False", 'readiness gate "g" does not exist.'),
        ([condition("g", "False")], "False", 'gate "g" is not "True", but False'),
        ([condition("g")], "True", ""),
    ],
)
def test_readiness_gates_are_the_home_pods(
    conditions: list[KubeObject], value: str, message: str
) -> None:
    home = build_pod(gates=("g",), conditions=conditions)
    ready = by_type(reflected(home, build_behind()))["Ready"]
    assert ready["status"] == value
    assert message in ready.get("message", "")


def test_terminating_behind_is_not_ready() -> None:
    found = by_type(reflected(build_pod(), build_behind(), terminating=True))
    assert found["Ready"]["status"] == "False"
    assert found["Ready"]["reason"] == status.TERMINATING_REASON
    assert found["ContainersReady"]["status"] == "True"


def test_containers_not_ready() -> None:
    behind = build_behind()
    behind["conditions"] = [condition("ContainersReady", "False", reason="X", message="m")]
    ready = by_type(reflected(build_pod(), behind))["Ready"]
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "X", "m")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_terminal_phase_stays(phase: str) -> None:
    home = build_pod(phase=phase)
    assert status.reflect(home, build_behind(), address=ADDRESS) is None
    other = "Failed" if phase == "Succeeded" else "Succeeded"
    assert status.reflect(home, build_behind(phase=other), address=ADDRESS) is None
    assert reflected(home, build_behind(phase=phase))["phase"] == phase


def test_absent_behind_is_absent_at_home() -> None:
    home = build_pod(reason="X", message="m", podIP="1.1.1.1", podIPs=[{"ip": "1.1.1.1"}])
    found = reflected(home, build_behind())
    assert {"reason", "message", "podIP", "podIPs"} & found.keys() == set()


def test_addresses_are_replaced_whole() -> None:
    home = build_pod(hostIPs=[{"ip": "9.9.9.9"}], podIPs=[{"ip": "1.1.1.1"}, {"ip": "::1"}])
    found = reflected(home, build_behind(podIPs=[{"ip": "2.2.2.2"}]))
    assert found["hostIPs"] == [{"ip": ADDRESS}]
    assert found["podIPs"] == [{"ip": "2.2.2.2"}]


def test_start_time_stays() -> None:
    assert reflected(build_pod(startTime=NOW), build_behind())["startTime"] == NOW


def test_restarts_of_lost_pods_add_up_and_never_go_back() -> None:
    home = build_pod(containerStatuses=[container(restarts=3)])
    found = reflected(home, build_behind(), restarts={"c": 3})
    assert found["containerStatuses"][0]["restartCount"] == 3
    found = reflected(home, build_behind(containerStatuses=[container(restarts=2)]))
    assert found["containerStatuses"][0]["restartCount"] == 3
    found = reflected(
        home, build_behind(containerStatuses=[container(restarts=2)]), restarts={"c": 3}
    )
    assert found["containerStatuses"][0]["restartCount"] == 5


@pytest.mark.parametrize(
    ("fields", "started"),
    [
        ({}, False),
        ({"containerStatuses": [container(state={"waiting": {}})]}, False),
        ({"containerStatuses": [container()]}, True),
        ({"initContainerStatuses": [container(state={"terminated": {"exitCode": 0}})]}, True),
        ({"containerStatuses": [container(state={"waiting": {}}, restarts=1)]}, True),
        ({"containerStatuses": [container(state={}, lastState={"terminated": {}})]}, True),
        ({"containerStatuses": None}, False),
    ],
)
def test_has_started(fields: KubeObject, *, started: bool) -> None:
    assert status.has_started(build_pod(**fields)) is started


def test_explain() -> None:
    found = patched(build_pod(), status.explain(build_pod(), "Why", "because"))["status"]
    assert (found["phase"], found["reason"], found["message"]) == ("Pending", "Why", "because")
    assert status.explain(build_pod(phase="Failed"), "Why", "because") is None


def test_placeholder() -> None:
    home = build_pod(containerStatuses=[container()])
    wanted = status.placeholder(home, address=ADDRESS, condition="x/Placeholder", now=NOW)
    found = patched(home, wanted)["status"]
    assert found["phase"] == "Running"
    assert "containerStatuses" not in found
    assert found["startTime"] == NOW
    assert by_type(found)["Ready"]["status"] == "True"
    assert by_type(found)["x/Placeholder"]["status"] == "True"


def test_end_lost() -> None:
    done = container("d", state={"terminated": {"exitCode": 0}})
    home = build_pod(
        phase="Running",
        conditions=[condition("Ready"), condition("my/gate")],
        containerStatuses=[container(containerID="x://1"), done],
    )
    found = patched(home, status.end_lost(home, now=NOW))["status"]
    assert (found["phase"], found["reason"]) == ("Failed", status.LOST_REASON)
    lost, kept = found["containerStatuses"]
    assert kept == done
    assert lost["state"]["terminated"] == {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
        "startedAt": BEFORE,
        "finishedAt": NOW,
        "containerID": "x://1",
    }
    assert lost["ready"] is False
    conditions = by_type(found)
    assert conditions["Ready"]["status"] == "False"
    assert conditions["DisruptionTarget"]["status"] == "True"
    assert conditions["my/gate"] == condition("my/gate")


def test_end_deleted() -> None:
    home = build_pod(phase="Running", containerStatuses=[container()])
    found = patched(home, status.end_deleted(home, now=NOW))["status"]
    assert found["phase"] == "Failed"
    assert "terminated" in found["containerStatuses"][0]["state"]
    assert status.end_deleted(build_pod(phase="Succeeded"), now=NOW) is None


def test_restart_lost_counts_each_loss_once() -> None:
    waiting = container("w", state={"waiting": {"reason": "ContainerCreating"}})
    home = build_pod(phase="Running", containerStatuses=[container(restarts=1), waiting])
    after = patched(home, status.restart_lost(home, now=NOW))
    found = after["status"]
    assert found["phase"] == "Pending"
    assert status.restart_counts(found) == {"c": 2, "w": 0}
    assert found["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137
    assert found["containerStatuses"][0]["state"] == {"waiting": {"reason": "RemotePodLost"}}
    assert "lastState" not in found["containerStatuses"][1]
    assert build_patch(after, status.restart_lost(after, now=NOW), now=NOW) is None


def test_what_the_api_fills_in_is_no_difference() -> None:
    home = build_pod()
    wanted = status.reflect(home, build_behind(), address=ADDRESS)
    after = patched(home, wanted)
    assert wanted is not None
    after["status"]["containerStatuses"][0] |= {"lastState": {}, "image": "", "imageID": ""}
    for entry in after["status"]["conditions"]:
        entry["lastProbeTime"] = None
    assert build_patch(after, wanted, now=NOW) is None
    other = status.reflect(
        home, build_behind(containerStatuses=[container(state={})]), address=ADDRESS
    )
    assert other is not None
    patch = build_patch(after, other, now=NOW)
    assert patch is not None
    assert set(patch["status"]) == {"containerStatuses"}


def test_maps_are_replaced_whole() -> None:
    home = build_pod(resources={"requests": {"cpu": "1", "memory": "1Gi"}})
    found = reflected(home, build_behind(resources={"requests": {"cpu": "2"}}))
    assert found["resources"] == {"requests": {"cpu": "2"}}


def test_containers_that_home_does_not_have_are_not_shown() -> None:
    home = build_pod()
    home["spec"] |= {
        "initContainers": [{"name": "i"}],
        "ephemeralContainers": [{"name": "debug"}],
    }
    found = reflected(
        home,
        build_behind(
            initContainerStatuses=[container("mesh-init"), container("i")],
            containerStatuses=[container(), container("mesh")],
            ephemeralContainerStatuses=[container("theirs"), container("debug")],
        ),
    )
    names = {
        field: [entry["name"] for entry in found[field]] for field in status.CONTAINER_STATUSES
    }
    assert names == {
        "initContainerStatuses": ["i"],
        "containerStatuses": ["c"],
        "ephemeralContainerStatuses": ["debug"],
    }


def test_only_strange_containers_are_none_at_all() -> None:
    found = reflected(build_pod(), build_behind(initContainerStatuses=[container("mesh-init")]))
    assert "initContainerStatuses" not in found


def test_strange_containers_of_an_earlier_write_are_taken_away() -> None:
    home = build_pod(containerStatuses=[container(), container("mesh")])
    found = reflected(home, build_behind(containerStatuses=[container(), container("mesh")]))
    assert [entry["name"] for entry in found["containerStatuses"]] == ["c"]


def test_mounts_that_home_does_not_have_are_not_shown() -> None:
    mine = {"name": "data", "mountPath": "/data"}
    moved = {"name": "data", "mountPath": "/elsewhere"}
    token = {"name": "kube-api-access-x", "mountPath": "/var/run/secrets"}
    home = build_pod()
    home["spec"]["containers"][0]["volumeMounts"] = [mine]
    behind = build_behind(containerStatuses=[container(volumeMounts=[token, mine, moved])])
    found = reflected(home, behind)
    assert found["containerStatuses"][0]["volumeMounts"] == [mine]
    del home["spec"]["containers"][0]["volumeMounts"]
    assert reflected(home, behind)["containerStatuses"][0]["volumeMounts"] == []


def test_sidecar_and_readiness_are_shown_as_they_are_told() -> None:
    home = build_pod()
    home["spec"] |= {
        "restartPolicy": "Never",
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
    }
    behind = build_behind(
        initContainerStatuses=[container("side", ready=False, started=True)],
        conditions=[
            condition("ContainersReady", "False", reason="ContainersNotReady"),
            condition("Ready", "False", reason="ContainersNotReady"),
        ],
    )
    found = reflected(home, behind)
    assert found["initContainerStatuses"] == behind["initContainerStatuses"]
    assert by_type(found)["Ready"]["status"] == "False"


def test_pod_that_is_not_placed_behind_is_pending_with_the_reason() -> None:
    told = {"reason": "RemoteUnschedulable", "message": "0/3 nodes are available"}
    found = reflected(
        build_pod(conditions=[condition("PodScheduled")]), {"phase": "Pending", **told}
    )
    assert {key: found[key] for key in ("phase", "reason", "message")} == {
        "phase": "Pending",
        **told,
    }
    assert by_type(found)["PodScheduled"]["status"] == "True"
    # Placed, the reason goes.
    home = build_pod(reason=told["reason"], message=told["message"])
    assert not {"reason", "message"} & reflected(home, build_behind()).keys()


def test_failure_of_one_container_is_not_hidden_by_a_later_success() -> None:
    home = build_pod(phase="Running")
    home["spec"]["containers"] = [{"name": "bad"}, {"name": "good"}]
    ended = [
        container(name, state={"terminated": {"exitCode": code}}, ready=False)
        for name, code in (("bad", 1), ("good", 0))
    ]
    found = reflected(home, build_behind(phase="Failed", containerStatuses=ended))
    assert found["phase"] == "Failed"
    assert found["containerStatuses"] == ended


def test_conditions_of_a_resize_come_and_go() -> None:
    behind = build_behind()
    waiting = condition("PodResizePending", reason="Deferred", message="no room")
    behind["conditions"].append(waiting)
    home = build_pod(conditions=[condition("PodScheduled"), condition("PodResizeInProgress")])
    after = patched(home, status.reflect(home, behind, address=ADDRESS))
    found = by_type(after["status"])
    assert found["PodResizePending"]["reason"] == "Deferred"
    assert "PodResizeInProgress" not in found
    after = patched(after, status.reflect(after, build_behind(), address=ADDRESS))
    assert "PodResizePending" not in by_type(after["status"])
    assert "PodScheduled" in by_type(after["status"])


EVICTED = condition("DisruptionTarget", reason="TerminationByKubelet")


@pytest.mark.parametrize(
    ("phase", "before", "options", "others", "reason"),
    [
        ("Failed", "Running", {}, [EVICTED], "TerminationByKubelet"),
        ("Failed", "Running", {"terminating": True}, [], "RemotePodLost"),
        ("Failed", "Running", {}, [], None),  # by itself
        ("Failed", "Failed", {"terminating": True}, [], None),  # before it was deleted
        ("Succeeded", "Running", {"terminating": True}, [EVICTED], None),
        ("Running", "Pending", {"terminating": True}, [EVICTED], None),
        ("Failed", "Running", {}, [condition("DisruptionTarget", "False")], None),
    ],
)
def test_end_by_a_disruption_is_told_from_a_failure(
    phase: str,
    before: str,
    options: dict[str, bool],
    others: list[KubeObject],
    reason: str | None,
) -> None:
    home = build_pod(phase=before)
    home["spec"]["restartPolicy"] = "Never"
    behind = build_behind(phase=phase)
    behind["conditions"] += others
    found = by_type(reflected(home, behind, **options))
    assert found.get("DisruptionTarget", {}).get("reason") == reason
