"""`/exec/…` and `/attach/{namespace}/{pod}[/{uid}]/{container}`: a command and its streams."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from vkubelet.errors import RequestError
from vkubelet.interface import CommandStreams, ExitStatus, PodRef
from vkubelet.server.command_session import CommandSession
from vkubelet.server.hijack import hijack
from vkubelet.server.lookup import build_ref, find_requested_pod, is_running, quote
from vkubelet.server.query import is_set, parse_query
from vkubelet.server.services import NODE_CONTEXT
from vkubelet.server.upgrade import Upgrade, negotiate_upgrade, refuse_upgrade
from vkubelet.streaming.remotecommand import (
    SPDY_PROTOCOLS,
    CommandServer,
    RemoteCommandServer,
    StreamOptions,
)
from vkubelet.streaming.remotecommand_websocket import WEBSOCKET_PROTOCOLS, WebSocketCommandServer

# What a kubelet says when the container doesn't run, or the pod has no such container.
_NOT_RUNNING = "container not found ({quoted})"
_NOT_ATTACHABLE = "container {container} not found in pod {pod}_{namespace}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """A request for a container's streams, checked."""

    ref: PodRef
    container: str
    options: StreamOptions
    upgrade: Upgrade


async def exec_command(request: web.Request) -> web.StreamResponse:
    """
    Run a command in a container of this node.

    Nothing happens before the 101, as API servers may send a refused request twice. A client that
    leaves cancels the command.
    """
    provider = request.app[NODE_CONTEXT].services.provider
    try:
        command = parse_query(request).get("command", [])
        wanted = await parse_command_request(request, missing=_NOT_RUNNING)
        if not command:
            raise RequestError(400, "you must specify a command")  # noqa: TRY301 - one way out
    except RequestError as error:
        return refuse_upgrade(request, error)

    async def start(streams: CommandStreams) -> ExitStatus:
        return await provider.exec(
            wanted.ref, wanted.container, command, streams, tty=wanted.options.tty
        )

    return await _run(request, wanted, start, verb="executing command")


async def attach_container(request: web.Request) -> web.StreamResponse:
    """
    Attach to the main process of a container of this node; else as `exec_command`.

    A client that leaves detaches.
    """
    provider = request.app[NODE_CONTEXT].services.provider
    try:
        wanted = await parse_command_request(request, missing=_NOT_ATTACHABLE)
    except RequestError as error:
        return refuse_upgrade(request, error)

    async def start(streams: CommandStreams) -> ExitStatus:
        return await provider.attach(wanted.ref, wanted.container, streams, tty=wanted.options.tty)

    return await _run(request, wanted, start, verb="attaching")


async def _run(
    request: web.Request,
    wanted: CommandRequest,
    start: Callable[[CommandStreams], Awaitable[ExitStatus]],
    *,
    verb: str,
) -> web.StreamResponse:
    context = request.app[NODE_CONTEXT]
    core: CommandServer
    if wanted.upgrade.is_websocket:
        core = WebSocketCommandServer(wanted.options, wanted.upgrade.protocol)
    else:
        core = RemoteCommandServer(wanted.options, wanted.upgrade.protocol)
    session = CommandSession(wanted.options, core, context.services.policy, verb=verb)
    with context.streams.add(session.interruption):
        async with hijack(request, wanted.upgrade.headers, session, session.lost) as response:
            await session.run(start)
    return response


async def parse_command_request(request: web.Request, *, missing: str) -> CommandRequest:
    """
    Check all there is to check before the upgrade.

    Args:
        request: The request.
        missing: The sentence if the container doesn't run, to be formatted.

    Raises:
        RequestError: With a kubelet's status and words.
    """
    options = parse_stream_options(parse_query(request))
    context = request.app[NODE_CONTEXT]
    pods = context.services.pods
    no_pod = "pod does not exist"
    pod = find_requested_pod(pods, context.node_name, request, missing=no_pod, changed=no_pod)
    container = request.match_info["container"]
    if not await is_running(pods, pod, container):
        raise RequestError(500, missing.format(quoted=quote(container), **request.match_info))
    return CommandRequest(
        ref=build_ref(pod),
        container=container,
        options=options,
        upgrade=negotiate_upgrade(request, spdy=SPDY_PROTOCOLS, websocket=WEBSOCKET_PROTOCOLS),
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
