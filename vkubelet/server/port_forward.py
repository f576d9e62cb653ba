"""`/portForward/{namespace}/{pod}[/{uid}]`: connections to ports of a pod."""

import functools

from aiohttp import web

from vkubelet.errors import RequestError
from vkubelet.server.forward_session import ForwardSession
from vkubelet.server.hijack import hijack
from vkubelet.server.lookup import build_ref, find_requested_pod, has_ended, quote
from vkubelet.server.query import parse_query
from vkubelet.server.services import NODE_CONTEXT
from vkubelet.server.upgrade import Upgrade, negotiate_upgrade, refuse_upgrade
from vkubelet.streaming.channels import BASE64_PROTOCOLS
from vkubelet.streaming.portforward import (
    PORT_FORWARD_PROTOCOL,
    TUNNEL_PROTOCOL,
    ForwardServer,
    PortForwardServer,
    parse_port,
)
from vkubelet.streaming.portforward_channels import (
    CHANNEL_FORWARD_PROTOCOLS,
    MAX_BASE64_PORTS,
    MAX_PORTS,
    ChannelForwardServer,
)
from vkubelet.streaming.portforward_tunnel import TunnelledPortForwardServer


async def forward_ports(request: web.Request) -> web.StreamResponse:
    """
    Forward connections to a pod of this node, as many as the client wants.

    Nothing happens before the 101, as API servers may send a refused request twice. A client that
    leaves closes all of them.
    """
    context = request.app[NODE_CONTEXT]
    try:
        pod = find_requested_pod(
            context.services.pods,
            context.node_name,
            request,
            missing="pod does not exist",
            changed="pod not found",
        )
        if has_ended(pod.raw):
            full_name = f"{pod.metadata.name}_{pod.metadata.namespace}"
            raise RequestError(500, f"pod not found ({quote(full_name)})")  # noqa: TRY301
        upgrade = negotiate_upgrade(
            request,
            spdy=(PORT_FORWARD_PROTOCOL,),
            websocket=(TUNNEL_PROTOCOL, *CHANNEL_FORWARD_PROTOCOLS),
        )
        core = build_core(upgrade, parse_query(request))
    except RequestError as error:
        return refuse_upgrade(request, error)
    ref = build_ref(pod)
    session = ForwardSession(core, ref, context.services.policy)
    dial = functools.partial(context.services.provider.port_forward, ref)
    with context.streams.add(session.interruption):
        async with hijack(request, upgrade.headers, session, session.lost) as response:
            await session.run(dial)
    return response


def build_core(upgrade: Upgrade, query: dict[str, list[str]]) -> ForwardServer:
    """
    Build the protocol's core.

    Raises:
        RequestError: 400 if the older WebSocket form names no ports, or bad ones.
    """
    if not upgrade.is_websocket:
        return PortForwardServer()
    if upgrade.protocol == TUNNEL_PROTOCOL:
        return TunnelledPortForwardServer()
    limit = MAX_BASE64_PORTS if upgrade.protocol in BASE64_PROTOCOLS else MAX_PORTS
    return ChannelForwardServer(parse_ports(query, limit), upgrade.protocol)


def parse_ports(query: dict[str, list[str]], limit: int) -> list[int]:
    """
    Read the ports of the URL: lists, and repeated.

    Raises:
        RequestError: 400 in a kubelet's words.
    """
    texts = [text for value in query.get("port", []) for text in value.split(",") if value]
    if not texts:
        raise RequestError(400, 'query parameter "port" is required')
    ports: list[int] = []
    for text in texts:
        port = parse_port(text.strip())
        if port is None:
            raise RequestError(400, f"unable to parse {text[:20]!r} as a port")
        ports.append(port)
    if len(ports) > limit:
        raise RequestError(400, f"{len(ports)} ports, {limit} are allowed")
    return ports
