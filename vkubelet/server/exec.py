"""`/exec/{namespace}/{pod}[/{uid}]/{container}`: run a command, its streams over SPDY."""

from dataclasses import dataclass

from aiohttp import web

from vkubelet.errors import RequestError
from vkubelet.interface import CommandStreams, ExitStatus, PodRef
from vkubelet.server.authorization import is_upgrade
from vkubelet.server.command_session import CommandSession
from vkubelet.server.errors import respond_status
from vkubelet.server.hijack import hijack
from vkubelet.server.lookup import build_ref, find_pod, has_container, quote
from vkubelet.server.query import is_set, parse_query
from vkubelet.server.services import NODE_CONTEXT
from vkubelet.streaming.channels import negotiate_protocol
from vkubelet.streaming.remotecommand import SPDY_PROTOCOLS, StreamOptions

PROTOCOL_HEADER = "X-Stream-Protocol-Version"
ACCEPTED_HEADER = "X-Accepted-Stream-Protocol-Versions"
SPDY = "SPDY/3.1"


class NoCommonProtocolError(RequestError):
    """The client offers no protocol that is served: 403, with a header for each that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """A request to run a command, checked."""

    ref: PodRef
    container: str
    command: list[str]
    options: StreamOptions
    protocol: str


async def exec_command(request: web.Request) -> web.StreamResponse:
    """
    Run a command in a container of this node.

    Nothing happens before the 101, as API servers may send a refused request twice. A client that
    leaves cancels the command.
    """
    context = request.app[NODE_CONTEXT]
    try:
        wanted = parse_exec_request(request)
    except RequestError as error:
        refusal = respond_status(error)
        if isinstance(error, NoCommonProtocolError):
            refusal.headers.extend((ACCEPTED_HEADER, served) for served in SPDY_PROTOCOLS)
        return refusal

    async def start(streams: CommandStreams) -> ExitStatus:
        return await context.services.provider.exec(
            wanted.ref, wanted.container, wanted.command, streams, tty=wanted.options.tty
        )

    session = CommandSession(wanted.options, wanted.protocol, context.services.policy)
    headers = {"Upgrade": SPDY, PROTOCOL_HEADER: wanted.protocol}
    with context.streams.add(session.interruption):
        async with hijack(request, headers, session, session.lost) as response:
            await session.run(start)
    return response


def parse_exec_request(request: web.Request) -> ExecRequest:
    """
    Check all there is to check before the upgrade.

    Raises:
        RequestError: With a kubelet's status and words.
    """
    context = request.app[NODE_CONTEXT]
    query = parse_query(request)
    options = parse_stream_options(query)
    command = query.get("command", [])
    if not command:
        raise RequestError(400, "you must specify a command")
    namespace, name = request.match_info["namespace"], request.match_info["pod"]
    pod = find_pod(context.services.pods, context.node_name, namespace, name)
    ref = build_ref(pod)
    if request.match_info.get("uid", ref.uid) != ref.uid:
        raise RequestError(404, f"pod {quote(name)} does not exist\n")
    container = request.match_info["container"]
    if not has_container(pod, container):
        raise RequestError(404, f"container not found ({quote(container)})")
    return ExecRequest(
        ref=ref,
        container=container,
        command=command,
        options=options,
        protocol=negotiate_spdy(request),
    )


def parse_stream_options(query: dict[str, list[str]]) -> StreamOptions:
    """
    Read which streams are wanted; a terminal has no stderr of its own.

    Raises:
        RequestError: 400 in a kubelet's words.
    """
    tty = is_set(query, "tty")
    options = StreamOptions(
        stdin=is_set(query, "input"),
        stdout=is_set(query, "output"),
        stderr=is_set(query, "error") and not tty,
        tty=tty,
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise RequestError(400, "you must specify at least 1 of stdin, stdout, stderr")
    return options


def negotiate_spdy(request: web.BaseRequest) -> str:
    """
    Return the protocol to speak over SPDY.

    Raises:
        RequestError: 400 if this isn't an upgrade to SPDY, 403 if there is no common protocol.
    """
    upgrade = request.headers.get("Upgrade", "").lower()
    if is_upgrade(request) and upgrade == "websocket":
        raise RequestError(
            400, f"unable to upgrade: this node serves {SPDY} with {', '.join(SPDY_PROTOCOLS)}"
        )
    if not is_upgrade(request) or SPDY.lower() not in upgrade:
        raise RequestError(400, f"unable to upgrade: missing upgrade headers for {SPDY} in request")
    lines = request.headers.getall(PROTOCOL_HEADER, [])
    offered = [part.strip() for line in lines for part in line.split(",") if part.strip()]
    if not offered:
        raise RequestError(400, f"unable to upgrade: {PROTOCOL_HEADER} is required")
    protocol = negotiate_protocol(offered, SPDY_PROTOCOLS)
    if protocol is None:
        raise NoCommonProtocolError(
            403,
            f"unable to upgrade: unable to negotiate protocol: client supports {offered}, "
            f"server accepts {list(SPDY_PROTOCOLS)}",
        )
    return protocol
