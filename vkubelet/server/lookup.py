"""Which pod a request is for: it must be on the node whose port was called."""

import json
from collections.abc import Iterable, Iterator
from typing import Protocol

from aiohttp import web

from vkubelet.errors import RequestError
from vkubelet.interface import PodRef
from vkubelet.kube.objects import CachedObject, KubeObject


class PodLookup(Protocol):
    """The home pods that are bound to our nodes."""

    def find(self, node_name: str, namespace: str, name: str) -> CachedObject | None:
        """Return the pod of that name if it is on that node."""

    def on_node(self, node: str) -> Iterable[CachedObject]:
        """Return the pods on a node."""


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


def has_container(pod: CachedObject, container: str) -> bool:
    """Return whether a pod's spec has a container, init container or ephemeral one of that name."""
    spec: KubeObject = pod.decode().get("spec") or {}
    return container in _list_containers(spec)


def _list_containers(spec: KubeObject) -> Iterator[str]:
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            yield container["name"]
