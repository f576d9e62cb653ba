"""The nodes of the file, as virtual nodes that look like physical ones."""

import asyncio
import logging
import platform
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import msgspec

from vkubelet.interface import NodeCondition, Taint, VirtualNode

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.2

_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

_NODE_INFO = {
    "kubeletVersion": "v1.37.2",
    "containerRuntimeVersion": "process://1",
    "operatingSystem": "linux",
    "architecture": _ARCHITECTURE,
    "osImage": "process node",
    "kernelVersion": platform.release(),
}


class NodeEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A node of the file.

    Attributes:
        name: Name of the Node.
        labels: Labels beside those that every node has.
        annotations: Annotations.
        taints: Taints; a cordon goes through the API.
        capacity: Quantities by resource name.
        allocatable: As capacity, which is the default.
        ready: Whether the node is Ready.
    """

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] | None = None
    ready: bool = True


class NodesFileError(Exception):
    """The file of nodes can't be used."""


def read_nodes(path: Path) -> tuple[VirtualNode, ...]:
    """
    Read the file: a list of NodeEntry, as YAML or JSON.

    Raises:
        NodesFileError: If it can't be read, or isn't such a list.
    """
    try:
        entries = msgspec.yaml.decode(path.read_bytes(), type=list[NodeEntry])
    except (OSError, msgspec.MsgspecError) as error:
        raise NodesFileError(f"{path}: {error}") from error
    names = [entry.name for entry in entries]
    if len(set(names)) < len(names):
        raise NodesFileError(f"{path}: a name stands there twice")
    return tuple(build_node(entry) for entry in entries)


async def watch_nodes(path: Path) -> AsyncGenerator[Sequence[VirtualNode], None]:
    """Yield the file's nodes at each change; a change that can't be used is logged and skipped."""
    stamp: tuple[int, ...] = ()
    nodes: Sequence[VirtualNode] | None = None
    while True:
        last, stamp = stamp, await asyncio.to_thread(_stamp, path)
        if stamp != last:
            try:
                read = await asyncio.to_thread(read_nodes, path)
            except NodesFileError as error:
                logger.warning("the nodes stay as they are: %s", error)
            else:
                if read != nodes:
                    nodes = read
                    yield nodes
        await asyncio.sleep(_POLL_SECONDS)


def build_node(entry: NodeEntry) -> VirtualNode:
    """Build the node that an entry describes."""
    ready = NodeCondition(
        type="Ready",
        status="True" if entry.ready else "False",
        reason="KubeletReady" if entry.ready else "KubeletNotReady",
        message="kubelet is posting ready status" if entry.ready else "the nodes file says so",
    )
    return VirtualNode(
        name=entry.name,
        labels={
            "kubernetes.io/hostname": entry.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": _ARCHITECTURE,
            **entry.labels,
        },
        annotations=entry.annotations,
        taints=entry.taints,
        capacity=entry.capacity,
        allocatable=entry.capacity if entry.allocatable is None else entry.allocatable,
        conditions=(ready, *_build_pressures()),
        node_info=_NODE_INFO,
    )


def _build_pressures() -> tuple[NodeCondition, ...]:
    return tuple(
        NodeCondition(type=f"{what}Pressure", status="False", reason=f"KubeletHas{enough}")
        for what, enough in (
            ("Memory", "SufficientMemory"),
            ("Disk", "NoDiskPressure"),
            ("PID", "SufficientPID"),
        )
    )


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino
