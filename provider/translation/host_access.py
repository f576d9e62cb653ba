"""
What of its host a pod asks for: that travels only with `--allow-host-access`.

More than namespaces and paths of the host count: capabilities beyond those that the Pod Security
level `baseline` leaves to everybody reach into its kernel, and a probe of another host is made from
its network. The other rules of `baseline` are left to the remote namespace.

Source: the policy package of pod-security-admission.
"""

from collections.abc import Iterator
from typing import Any

from provider.translation.fields import HOST_ACCESS_FIELDS
from provider.translation.references import iterate_containers
from vkubelet.kube.objects import KubeObject

BASELINE_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
"""Capabilities that a container may add."""

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_HANDLERS = ("httpGet", "tcpSocket")


def find_host_access(spec: KubeObject) -> Iterator[str]:
    """Name what a pod wants of its host; of its containers all but ephemeral ones."""
    for field in HOST_ACCESS_FIELDS:
        if spec.get(field):
            yield field
    for volume in spec.get("volumes") or []:
        if volume.get("hostPath") is not None:
            yield f"volume {volume.get('name', '')!r} is a hostPath"
    if _is_host_process(spec):
        yield "hostProcess"
    for container in iterate_containers(spec):
        yield from find_container_host_access(container)


def find_container_host_access(container: KubeObject) -> Iterator[str]:
    """Name what a container of any kind wants of its host."""
    name = f"container {container.get('name', '')!r}"
    security: dict[str, Any] = container.get("securityContext") or {}
    if security.get("privileged"):
        yield f"{name} is privileged"
    if _is_host_process(container):
        yield f"{name} is a hostProcess"
    added: list[str] = (security.get("capabilities") or {}).get("add") or []
    for capability in added:
        if capability not in BASELINE_CAPABILITIES:
            yield f"{name} adds the capability {capability}"
    if any(port.get("hostPort") for port in container.get("ports") or []):
        yield f"{name} has a hostPort"
    for field, handler in _find_handlers(container):
        for kind in _HANDLERS:
            host = (handler.get(kind) or {}).get("host")
            if host:
                yield f"{name} has a {field} that asks host {host}"


def _find_handlers(container: KubeObject) -> Iterator[tuple[str, KubeObject]]:
    """Yield what the kubelet does about a container, with the field that says so."""
    lifecycle: dict[str, Any] = container.get("lifecycle") or {}
    for holder, fields in ((container, _PROBES), (lifecycle, _HOOKS)):
        for field in fields:
            if holder.get(field):
                yield field, holder[field]


def _is_host_process(holder: KubeObject) -> bool:
    security: dict[str, Any] = holder.get("securityContext") or {}
    return bool((security.get("windowsOptions") or {}).get("hostProcess"))
