"""`/pods` and `/runningpods/`: the pods that are on the node, and those of them that run."""

from collections.abc import Iterable

from aiohttp import web

from vkubelet.kube.objects import CachedObject
from vkubelet.server.lookup import list_running_containers
from vkubelet.server.services import NODE_CONTEXT


async def get_pods(request: web.Request) -> web.Response:
    """List the pods that are bound to the node, whatever they do."""
    context = request.app[NODE_CONTEXT]
    return _respond(context.services.pods.on_node(context.node_name))


async def redirect_to_running_pods(_: web.Request) -> web.Response:
    """Lead on to the path with a slash, as Go's server does: clients such as client-go drop it."""
    path = "/runningpods/"
    return web.Response(
        status=301,
        headers={"Location": path},
        text=f'<a href="{path}">Moved Permanently</a>.\n\n',
        content_type="text/html",
    )


async def get_running_pods(request: web.Request) -> web.Response:
    """List the pods that have a running container, as their status says."""
    context = request.app[NODE_CONTEXT]
    pods = context.services.pods.on_node(context.node_name)
    return _respond(pod for pod in pods if list_running_containers(pod.raw))


def _respond(pods: Iterable[CachedObject]) -> web.Response:
    """Answer with a PodList of the bytes as they are."""
    items = b",".join(pod.raw for pod in pods)
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":['
    return web.Response(body=head + items + b"]}\n", content_type="application/json")
