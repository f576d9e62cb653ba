"""
metrics-server: built once, and run beside a test cluster.

`python -m tests.cluster.metrics_server` (`make binaries`) builds it unless it's there.
"""

import ipaddress
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.cluster.binaries import run_tool
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.go_program import GoProgram
from tests.cluster.processes import Component, ReservedPort
from tests.cluster.waiting import wait_until

RESOLUTION_SECONDS = 10
"""How often it looks at the kubelets; it takes no less."""

_MODULE = "sigs.k8s.io/metrics-server"
PROGRAM = GoProgram("metrics-server", "0.9.0", _MODULE, f"{_MODULE}/cmd/metrics-server")

_PROGRAM = PROGRAM.name
_SERVICE = "metrics-server.kube-system.svc"
_API_SERVICE = "v1beta1.metrics.k8s.io"
_LOOPBACK_ADDRESS = "10.199.0.1"
_READY_SECONDS = 60.0


def find_address() -> str:
    """
    Find an address of this machine that may be an endpoint of a Service: not a loopback one.

    As root one is added to the loopback interface if there is no other.

    Raises:
        ClusterError: If there is none.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            address = str(probe.getsockname()[0])
        except OSError:
            address = "127.0.0.1"
    if not ipaddress.ip_address(address).is_loopback:
        return address
    program = shutil.which("ip")
    if program is not None and os.geteuid() == 0:
        command = [program, "address", "replace", f"{_LOOPBACK_ADDRESS}/32", "dev", "lo"]
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            return _LOOPBACK_ADDRESS
    raise ClusterError("metrics-server needs an address of this machine that isn't a loopback one")


class MetricsServer:
    """
    metrics-server for one cluster, by a service account of its own, as its manifest has it.

    Stop it before tests that don't need it: an aggregated API that nobody serves keeps the
    cluster's namespaces from ending.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._port = ReservedPort()
        self._address = find_address()
        self._component: Component | None = None

    async def start(self) -> None:
        """Start it, and return when `kubectl top` gets an answer."""
        program = PROGRAM.locate()
        folder = self._cluster.folder
        await self._apply(*_build_rights())
        kubeconfig = await self._write_kubeconfig()
        pair = self._cluster.serving_ca.issue_server("metrics-server", [_SERVICE])
        certificate, key = pair.write(folder, "metrics-server")
        self._port.close()
        self._component = self._cluster.start_component(
            _PROGRAM,
            [
                program,
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                f"--bind-address={self._address}",
                f"--secure-port={self._port.number}",
                f"--tls-cert-file={certificate}",
                f"--tls-private-key-file={key}",
                "--kubelet-use-node-status-port",
                "--kubelet-preferred-address-types=InternalIP",
                f"--kubelet-certificate-authority={folder / 'serving-ca.crt'}",
                f"--metric-resolution={RESOLUTION_SECONDS}s",
                "--kubelet-request-timeout=5s",
            ],
        )
        await self._apply(*self._build_service())
        await self._wait_ready(self._component)

    async def stop(self) -> None:
        """Take its API out of the cluster, then end it; nothing happens if it wasn't started."""
        if self._component is None:
            return
        await self._cluster.kubectl("delete", "apiservice", _API_SERVICE, "--ignore-not-found")
        await self._component.stop()
        self._component = None

    async def _apply(self, *objects: dict[str, Any]) -> None:
        text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}).decode()
        await self._cluster.kubectl("apply", "-f", "-", stdin=text)

    async def _write_kubeconfig(self) -> Path:
        """By token, so that kubelets have to review it."""
        made = await self._cluster.kubectl(
            "create", "token", _PROGRAM, "--namespace=kube-system", "--duration=24h"
        )
        cluster = {
            "server": self._cluster.server,
            "certificate-authority": str(self._cluster.folder / "serving-ca.crt"),
        }
        context = {"cluster": "main", "user": "main"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "main", "cluster": cluster}],
            "users": [{"name": "main", "user": {"token": made.stdout.strip()}}],
            "contexts": [{"name": "main", "context": context}],
            "current-context": "main",
        }
        path = self._cluster.folder / "metrics-server.kubeconfig"
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode(config))
        return path

    def _build_service(self) -> tuple[dict[str, Any], ...]:
        metadata = {"name": _PROGRAM, "namespace": "kube-system"}
        port = self._port.number
        return (
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
            },
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    **metadata,
                    "labels": {"kubernetes.io/service-name": _PROGRAM},
                },
                "addressType": "IPv4",
                "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
                "endpoints": [{"addresses": [self._address], "conditions": {"ready": True}}],
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": _API_SERVICE},
                "spec": {
                    "group": "metrics.k8s.io",
                    "version": "v1beta1",
                    "service": metadata,
                    "caBundle": msgspec.to_builtins(self._cluster.serving_ca.certificate),
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                },
            },
        )

    async def _wait_ready(self, component: Component) -> None:
        async def ready() -> bool:
            if component.exit_code is not None:
                raise ClusterError(f"metrics-server ended\n{component.read_log()}")
            path = "/apis/metrics.k8s.io/v1beta1/nodes"
            answer = await self._cluster.kubectl("get", "--raw", path, check=False)
            return answer.returncode == 0

        await wait_until(ready, "metrics API available", timeout_seconds=_READY_SECONDS)


def _build_rights() -> tuple[dict[str, Any], ...]:
    account = {"name": _PROGRAM, "namespace": "kube-system"}
    subjects = [{"kind": "ServiceAccount", **account}]
    group = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:metrics-server"},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
            {
                "apiGroups": [""],
                "resources": ["pods", "nodes", "namespaces", "configmaps"],
                "verbs": ["get", "list", "watch"],
            },
        ],
    }
    bindings = [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"metrics-server:{name}"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": subjects,
        }
        for name in ("system:metrics-server", "system:auth-delegator")
    ]
    reader = "extension-apiserver-authentication-reader"
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        role,
        *bindings,
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"metrics-server-{reader}", "namespace": "kube-system"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": reader},
            "subjects": subjects,
        },
    )


if __name__ == "__main__":
    sys.exit(run_tool(PROGRAM.make))
