"""`/pods` and `/runningpods/`: the pods that are on the node, and those of them that run."""

from collections.abc import Iterable

import msgspec
from aiohttp import web

from vkubelet.kube.objects import CachedObject
from vkubelet.server.services import NODE_CONTEXT


class _Running(msgspec.Struct, frozen=True):
    """There, whatever is in it."""


class _State(msgspec.Struct, frozen=True):
    running: _Running | None = None


class _ContainerStatus(msgspec.Struct, frozen=True):
    state: _State = _State()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []
    ephemeral_container_statuses: list[_ContainerStatus] = []


class _Pod(msgspec.Struct, frozen=True):
    status: _Status = _Status()


_decode_pod = msgspec.json.Decoder(_Pod).decode


async def get_pods(request: web.Request) -> web.Response:
    """List the pods that are bound to the node, whatever they do."""
    context = request.app[NODE_CONTEXT]
    return _respond(context.services.pods.on_node(context.node_name))


async def get_running_pods(request: web.Request) -> web.Response:
    """List the pods that have a running container, as their status says."""
    context = request.app[NODE_CONTEXT]
    pods = context.services.pods.on_node(context.node_name)
    return _respond(pod for pod in pods if count_running_containers(pod))


def count_running_containers(pod: CachedObject) -> int:
    """Count the containers of a pod that run, of all kinds."""
    status = _decode_pod(pod.raw).status
    return sum(
        container.state.running is not None
        for container in (
            *status.container_statuses,
            *status.init_container_statuses,
            *status.ephemeral_container_statuses,
        )
    )


def _respond(pods: Iterable[CachedObject]) -> web.Response:
    """Answer with a PodList of the bytes as they are."""
    items = b",".join(pod.raw for pod in pods)
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":['
    return web.Response(body=head + items + b"]}\n", content_type="application/json")
