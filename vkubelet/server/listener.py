"""A virtual node's port: the kubelet API over TLS, for as long as a block lasts."""

import asyncio
import contextlib
import functools
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web

from vkubelet.server.access import build_gate
from vkubelet.server.cadvisor_metrics import get_cadvisor_metrics
from vkubelet.server.connections import Connections
from vkubelet.server.container_logs import get_container_logs
from vkubelet.server.errors import ListenError
from vkubelet.server.exec import attach_container, exec_command
from vkubelet.server.health import get_health
from vkubelet.server.http_log import http_logger
from vkubelet.server.interruption import OpenStreams
from vkubelet.server.kubelet_metrics import get_kubelet_metrics
from vkubelet.server.pod_lists import get_pods, get_running_pods, redirect_to_running_pods
from vkubelet.server.port_forward import forward_ports
from vkubelet.server.resource_metrics import get_resource_metrics
from vkubelet.server.services import NODE_CONTEXT, KubeletServices, NodeContext
from vkubelet.server.stats_summary import get_stats_summary
from vkubelet.server.tls import ServingTls

MAX_LINE_BYTES = 1 << 20
"""Of a request line or header, as a real kubelet: whole command lines travel in the URL."""

BACKLOG = 1024
"""Connections that the kernel holds for us; 500 shells may come at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServer:
    """
    A node's port that is being served.

    Attributes:
        node_name: The virtual node.
        host: The address listened on.
        port: The port, for the Node's `daemonEndpoints`.
        streams: The long requests that are open.
    """

    node_name: str
    host: str
    port: int
    streams: OpenStreams


@contextlib.asynccontextmanager
async def serve_node(
    node_name: str, *, host: str, port: int, tls: ServingTls, services: KubeletServices
) -> AsyncIterator[NodeServer]:
    """
    Serve the kubelet API of a virtual node while the block runs; port 0 takes a free one.

    At the end nothing more is accepted, open streams are told that the node is shutting down, and
    after the policy's `shutdown_seconds` what is left is cut off.

    Raises:
        ListenError: If the address can't be listened on.
    """
    context = NodeContext(node_name=node_name, services=services)
    with contextlib.closing(_listen(host, port)) as listener:
        connections = Connections(tls, services.policy, services.strangers)
        runner = web.AppRunner(
            _build_application(context, connections, tls),
            access_log=None,
            logger=http_logger,
            handler_cancellation=True,
            keepalive_timeout=services.policy.keep_alive_seconds,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            shutdown_timeout=services.policy.shutdown_seconds,
        )
        await runner.setup()
        server = runner.server
        if server is None:
            raise ListenError(f"{node_name}: the HTTP server didn't start")
        close_idle = functools.partial(connections.close_idle, server)
        tls.add_client_ca_handler(close_idle)
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                accepting = group.create_task(connections.accept(listener, server), name="accept")
                try:
                    yield NodeServer(
                        node_name=node_name,
                        host=host,
                        port=listener.getsockname()[1],
                        streams=context.streams,
                    )
                except BaseException as error:  # noqa: BLE001 - raised again, not as a group
                    failure = error
                accepting.cancel()
        finally:
            tls.remove_client_ca_handler(close_idle)
            context.streams.interrupt_all("the node is shutting down")
            await runner.cleanup()
        if failure is not None:
            raise failure


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise ListenError(f"can't listen on {host} port {port}: {error}") from error
    listener.setblocking(False)  # noqa: FBT003 - socket's signature
    return listener


def _build_application(
    context: NodeContext, connections: Connections, tls: ServingTls
) -> web.Application:
    application = web.Application(middlewares=[build_gate(connections, tls)])
    application[NODE_CONTEXT] = context
    router = application.router
    router.add_route("*", "/healthz", get_health)
    router.add_route("*", "/healthz/{check:ping|log|syncloop}", get_health)
    for path, endpoint in {
        "/metrics": get_kubelet_metrics,
        "/metrics/cadvisor": get_cadvisor_metrics,
        "/metrics/resource": get_resource_metrics,
        "/pods": get_pods,
        "/pods/": get_pods,
        "/runningpods": redirect_to_running_pods,
        "/runningpods/": get_running_pods,
        "/stats/summary": get_stats_summary,
        "/stats/summary/": get_stats_summary,
    }.items():
        router.add_route("*" if path.startswith("/metrics") else "GET", path, endpoint)
    router.add_route("GET", "/containerLogs/{namespace}/{pod}/{container}", get_container_logs)
    for method in ("GET", "POST"):
        for verb, handler in (("exec", exec_command), ("attach", attach_container)):
            router.add_route(method, f"/{verb}/{{namespace}}/{{pod}}/{{container}}", handler)
            router.add_route(
                method, f"/{verb}/{{namespace}}/{{pod}}/{{uid}}/{{container}}", handler
            )
        router.add_route(method, "/portForward/{namespace}/{pod}", forward_ports)
        router.add_route(method, "/portForward/{namespace}/{pod}/{uid}", forward_ports)
    return application
