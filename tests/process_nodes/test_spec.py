from pathlib import Path
from typing import Any

import pytest

from tests.cluster.process_nodes.spec import (
    Placement,
    build_container_specs,
    expand,
    list_warnings,
)
from tests.process_nodes.running import build_container, build_pod
from vkubelet.errors import RefusedError

PLACEMENT = Placement(
    node="node-a", pod_ip="10.199.0.1", host_ip="192.0.2.7", folder=Path("/nowhere/pod")
)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A $ $(A", "$A $ $(A"),
        ("$()", "$()"),
        ("100$", "100$"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded


def test_command_and_environment() -> None:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["echo", "$(GREETING)"],
        "args": ["$(POD)", "$(LATER)"],
        "env": [
            {"name": "WORD", "value": "hello"},
            {"name": "GREETING", "value": "$(WORD), $(LATER)"},
            {"name": "LATER", "value": "x"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "EMPTY"},
        ],
    }
    _, (spec,) = build_container_specs(build_pod(container), PLACEMENT)
    assert spec.command == ("echo", "hello, $(LATER)", "web", "x")
    assert {**spec.environment, "PATH": ""} == {
        "PATH": "",
        "HOME": "/nowhere/pod",
        "HOSTNAME": "web",
        "WORD": "hello",
        "GREETING": "hello, $(LATER)",
        "LATER": "x",
        "POD": "web",
        "NODE": "node-a",
        "HOST": "192.0.2.7",
        "IP": "10.199.0.1",
        "EMPTY": "",
    }


def test_working_directories(tmp_path: Path) -> None:
    folders = ["", "data/in", str(tmp_path), "/does/not/exist"]
    containers = [build_container(workingDir=folder) for folder in folders]
    _, specs = build_container_specs(build_pod(*containers), PLACEMENT)
    assert [spec.folder for spec in specs] == [
        PLACEMENT.folder,
        PLACEMENT.folder / "data/in",
        tmp_path,
        PLACEMENT.folder / "does/not/exist",
    ]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"envFrom": [{"configMapRef": {"name": "x"}}]}, "envFrom"),
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x"}}}]}, "secretKeyRef"),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]},
            "metadata.labels",
        ),
        ({"restartPolicy": "Always"}, "restartPolicy"),
    ],
)
def test_what_processes_cant_have_is_refused(fields: dict[str, Any], word: str) -> None:
    pod = build_pod(build_container(**fields))
    with pytest.raises(RefusedError, match=word) as caught:
        build_container_specs(pod, PLACEMENT)
    assert caught.value.reason.startswith("Unsupported")
    assert 'container "main"' in caught.value.message


def test_what_is_ignored_is_told() -> None:
    pod = build_pod(
        build_container(readinessProbe={"tcpSocket": {"port": 80}}),
        initContainers=[build_container(name="init", lifecycle={"preStop": {}})],
        volumes=[{"name": "kube-api-access-x2x4z"}, {"name": "data"}],
    )
    assert list_warnings(pod) == [
        "Process nodes ignore lifecycle.",
        "Process nodes ignore readinessProbe.",
        "Process nodes ignore volumes.",
    ]
    token = build_pod(build_container(), volumes=[{"name": "kube-api-access-x2x4z"}])
    assert list_warnings(token) == []
