"""
kwok: plays the kubelets of nodes that aren't there; built once, and run beside a test cluster.

`python -m tests.cluster.kwok` (`make binaries`) builds it unless it's there. Its pods are Running
as soon as it has heard of them; it has no containers, logs or commands.
"""

import sys
from typing import Any

import msgspec

from tests.cluster.binaries import run_tool
from tests.cluster.cluster import Cluster
from tests.cluster.go_program import GoProgram
from tests.cluster.waiting import wait_until

_MODULE = "sigs.k8s.io/kwok"
PROGRAM = GoProgram("kwok", "0.8.0", _MODULE, f"{_MODULE}/cmd/kwok")

LABEL = "vkubelet.test/kwok"
"""On the nodes that it plays; it leaves others alone."""
CAPACITY = {"cpu": "1000", "memory": "4Ti", "pods": "10000"}
_READY_SECONDS = 30.0
_IS_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'

_NODE_STATUS = """
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ Now | Quote }}
{{ end }}
addresses:
- type: InternalIP
  address: {{ NodeIP | Quote }}
"""

_POD_STATUS = """
phase: Running
startTime: {{ Now | Quote }}
hostIP: {{ index (NodeIPsWith .spec.nodeName) 0 | Quote }}
podIP: {{ index (PodIPsWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace) 0
  | Quote }}
conditions:
{{ range $type := list "Initialized" "ContainersReady" "Ready" }}
- type: {{ $type }}
  status: "True"
  lastTransitionTime: {{ Now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ Now | Quote }}
{{ end }}
"""


async def start_kwok(cluster: Cluster, nodes: int) -> None:
    """Start it as the kubelets of so many new nodes, and wait until they are Ready."""
    config = cluster.folder / "kwok.yaml"
    config.write_bytes(b"\n---\n".join(map(msgspec.json.encode, _build_stages())))
    made = [_build_node(f"kwok-{number}") for number in range(nodes)]
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": made}).decode()
    await cluster.kubectl("create", "-f", "-", stdin=text)
    cluster.start_component(
        PROGRAM.name,
        [
            PROGRAM.locate(),
            f"--config={config}",
            f"--kubeconfig={cluster.admin_kubeconfig}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-label-selector={LABEL}",
            "--node-ip=10.0.0.1",
            "--node-lease-duration-seconds=40",
            "--v=ERROR",  # else it logs each pod
        ],
    )

    async def ready() -> bool:
        path = '-o=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
        shown = await cluster.kubectl("get", "nodes", f"-l={LABEL}", path)
        return shown.stdout.split() == ["True"] * nodes

    await wait_until(ready, "kwok's nodes Ready", timeout_seconds=_READY_SECONDS)


def _build_node(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", LABEL: ""}
    info = dict.fromkeys(
        ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeProxyVersion"), ""
    ) | {
        "containerRuntimeVersion": "kwok",
        "kubeletVersion": "kwok",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": CAPACITY, "allocatable": CAPACITY, "nodeInfo": info},
    }


def _build_stages() -> list[dict[str, Any]]:
    deleted = ".metadata.deletionTimestamp"
    return [
        _build_stage(
            "node-ready",
            "Node",
            [{"key": _IS_READY, "operator": "NotIn", "values": ["True"]}],
            {"statusTemplate": _NODE_STATUS},
        ),
        _build_stage(
            "pod-runs",
            "Pod",
            [
                {"key": deleted, "operator": "DoesNotExist"},
                {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
            ],
            {"statusTemplate": _POD_STATUS},
        ),
        _build_stage("pod-ends", "Pod", [{"key": deleted, "operator": "Exists"}], {"delete": True}),
    ]


def _build_stage(
    name: str, kind: str, expressions: list[dict[str, Any]], following: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": expressions},
            "next": following,
        },
    }


if __name__ == "__main__":
    sys.exit(run_tool(PROGRAM.make))
