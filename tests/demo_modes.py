"""What the demo shows of each node mapping: flags, and what they should give."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "110"}
CONTROL_PLANE_TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
PHYSICAL_NODES: Sequence[dict[str, Any]] = (
    {"name": "control-plane", "taints": [CONTROL_PLANE_TAINT], "capacity": CAPACITY},
    {"name": "ssd-1", "labels": {"disktype": "ssd"}, "capacity": CAPACITY},
    {"name": "ssd-2", "labels": {"disktype": "ssd"}, "capacity": CAPACITY},
    {"name": "hdd-1", "labels": {"disktype": "hdd"}, "capacity": CAPACITY},
)


@dataclass(frozen=True, kw_only=True)
class Mode:
    """
    A node mapping.

    Attributes:
        arguments: Its flags.
        virtual_nodes: What they should make.
        target: The virtual node that the Deployment wants; "" for any.
        lands: Where its pods may be.
        column: The label that is shown of physical nodes.
        labels: Arguments of `kubectl label node` that come first.
        changes: Those that come later.
        after_change: What virtual nodes should offer then, in cores.
        foreign_node: The physical node that somebody else uses; "" for none.
    """

    arguments: Sequence[str] = ()
    virtual_nodes: Sequence[str]
    target: str = ""
    lands: Sequence[str] = ("ssd-1", "ssd-2", "hdd-1")
    column: str = "disktype"
    labels: Sequence[Sequence[str]] = ()
    changes: Sequence[Sequence[str]] = ()
    after_change: Mapping[str, str] = field(default_factory=dict)
    foreign_node: str = ""


MODES: Mapping[str, Mode] = {
    "cluster": Mode(virtual_nodes=["cloud"]),
    "selector": Mode(
        arguments=[
            "--node-mapping=selector",
            "--virtual-node=fast=disktype=ssd",
            "--virtual-node=slow=disktype notin (ssd)",
        ],
        virtual_nodes=["fast", "slow"],
        target="fast",
        lands=["ssd-1", "ssd-2"],
    ),
    "label": Mode(
        arguments=["--node-mapping=label", "--mapping-label=pool"],
        virtual_nodes=["cloud-web", "cloud-batch"],
        target="cloud-web",
        lands=["ssd-1", "ssd-2"],
        column="pool",
        labels=[["ssd-1", "ssd-2", "pool=web"], ["hdd-1", "pool=batch"]],
        changes=[["ssd-2", "pool=batch"]],
        after_change={"cloud-web": "4", "cloud-batch": "8"},
    ),
    "per-node": Mode(
        arguments=["--node-mapping=per-node"],
        virtual_nodes=["cloud-ssd-1", "cloud-ssd-2", "cloud-hdd-1"],
        target="cloud-ssd-2",
        lands=["ssd-2"],
        foreign_node="ssd-1",
    ),
    "split": Mode(
        arguments=["--max-nodes-per-virtual-node=2"],
        virtual_nodes=["cloud-0", "cloud-1"],
        target="cloud-1",
        lands=["ssd-2"],
    ),
}


def build_deployment(name: str, node: str, *, replicas: int = 2, cpu: str = "100m") -> str:
    """Write a Deployment that wants a virtual node, any of them if it isn't named."""
    wanted = f"kubernetes.io/hostname: {node}" if node else "type: virtual-kubelet"
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: demo
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      nodeSelector: {{{wanted}}}
      tolerations:
        - {{key: virtual-kubelet.io/provider, operator: Exists}}
      terminationGracePeriodSeconds: 2
      containers:
        - name: {name}
          image: busybox
          command: [sh, -c, "echo hello from $HOSTNAME; exec sleep 3600"]
          resources: {{requests: {{cpu: {cpu}}}}}
"""


def build_foreign_pod(node: str) -> str:
    """Write a pod of the remote cluster's own."""
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: theirs, namespace: default}}
spec:
  nodeSelector: {{kubernetes.io/hostname: {node}}}
  containers:
    - name: main
      image: busybox
      resources: {{requests: {{cpu: 3}}}}
"""
