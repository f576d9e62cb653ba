"""Which pod a request is for: it must be on the node whose port was called."""

import json
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec
from aiohttp import web

from vkubelet.errors import RequestError
from vkubelet.interface import PodRef
from vkubelet.kube.objects import CachedObject, KubeObject


class _Running(msgspec.Struct, frozen=True):
    """There, whatever is in it."""


class _State(msgspec.Struct, frozen=True):
    running: _Running | None = None


class _ContainerStatus(msgspec.Struct, frozen=True):
    name: str
    state: _State = _State()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []
    ephemeral_container_statuses: list[_ContainerStatus] = []


class _Pod(msgspec.Struct, frozen=True):
    status: _Status = _Status()


_decode_pod = msgspec.json.Decoder(_Pod).decode


class PodLookup(Protocol):
    """The home pods that are bound to our nodes."""

    def find(self, node_name: str, namespace: str, name: str) -> CachedObject | None:
        """Return the pod of that name if it is on that node."""

    def on_node(self, node: str) -> Iterable[CachedObject]:
        """Return the pods on a node."""

    async def read(self, namespace: str, name: str) -> CachedObject | None:
        """Return a pod as home's API server has it now; None if it can't be had."""


def quote(text: str) -> str:
    """Quote a name as Go's %q does; kubelets' sentences have it so."""
    return json.dumps(text, ensure_ascii=False)


def build_ref(pod: CachedObject) -> PodRef:
    """Build the reference by which providers know a pod."""
    return PodRef(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def find_pod(pods: PodLookup, node_name: str, namespace: str, name: str) -> CachedObject:
    """
    Return a pod of this node.

    Raises:
        RequestError: 404 with the kubelet's sentence.
    """
    pod = pods.find(node_name, namespace, name)
    if pod is None:
        raise RequestError(404, f"pod {quote(name)} does not exist\n")
    return pod


def find_requested_pod(
    pods: PodLookup, node_name: str, request: web.Request, *, missing: str, changed: str
) -> CachedObject:
    """
    Return the pod that a path names, by its UID too if there is one.

    Args:
        pods: Where to look.
        node_name: The node that was called.
        request: Its path has `namespace`, `pod` and maybe `uid`.
        missing: The sentence if there is no such pod.
        changed: The sentence if it's another of that name.

    Raises:
        RequestError: 404 with one of these sentences.
    """
    path = request.match_info
    pod = pods.find(node_name, path["namespace"], path["pod"])
    if pod is None:
        raise RequestError(404, missing)
    if path.get("uid", pod.metadata.uid) != pod.metadata.uid:
        raise RequestError(404, changed)
    return pod


async def is_running(pods: PodLookup, pod: CachedObject, container: str) -> bool:
    """
    Return whether a pod has a container, and it runs, by the pod's status at home.

    Callers may have seen it run before we did: the API server is asked before it's denied.
    """
    if not has_container(pod, container):
        return False
    if container in list_running_containers(pod.raw):
        return True
    now = await pods.read(pod.metadata.namespace, pod.metadata.name)
    if now is None or now.metadata.uid != pod.metadata.uid:
        return False
    return container in list_running_containers(now.raw)


def has_ended(pod: bytes) -> bool:
    """Return whether all of a pod has ended for good, as its status says."""
    return _decode_pod(pod).status.phase in ("Succeeded", "Failed")


def list_running_containers(pod: bytes) -> list[str]:
    """List the containers of a pod that run, of all kinds, as its status says."""
    status = _decode_pod(pod).status
    containers = (
        *status.container_statuses,
        *status.init_container_statuses,
        *status.ephemeral_container_statuses,
    )
    return [container.name for container in containers if container.state.running is not None]


def has_container(pod: CachedObject, container: str) -> bool:
    """Return whether a pod's spec has a container, init container or ephemeral one of that name."""
    spec: KubeObject = pod.decode().get("spec") or {}
    return container in _list_containers(spec)


def _list_containers(spec: KubeObject) -> Iterator[str]:
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            yield container["name"]
