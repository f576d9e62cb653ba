"""Commands in remote containers: how the remote API server is asked, and by which protocol."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias

from provider.streams.command import CommandLink, RemoteCommand
from provider.streams.failures import RemotePod, refuses_protocol
from provider.streams.spdy_link import SpdyLink, open_spdy_link
from provider.streams.websocket_link import WebSocketLink
from vkubelet.interface import CommandStreams, ExitStatus
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError, StatusError
from vkubelet.kube.objects import PODS
from vkubelet.streaming.channels import PROTOCOL_V4, PROTOCOL_V5

logger = logging.getLogger(__name__)

WEBSOCKET_PROTOCOLS: Final = (PROTOCOL_V5, PROTOCOL_V4)
"""What is offered over a WebSocket, best first; v4 can't tell that stdin has ended."""

Query: TypeAlias = list[tuple[str, str]]
OpenLink: TypeAlias = Callable[[], AbstractAsyncContextManager[CommandLink]]


async def relay_exec(
    client: KubeClient,
    pod: RemotePod,
    container: str,
    command: Sequence[str],
    streams: CommandStreams,
    *,
    tty: bool,
) -> ExitStatus:
    """
    Run a command in a remote container until it ends; see `Provider.exec`.

    Cancelling cuts the connection, which ends the far side. If it breaks, the command's end is
    unknown: it may have run, so it's never tried again.
    """
    query = build_query(container, streams, tty=tty, command=command)
    return await _relay(client, pod, "exec", query, streams, tty=tty)


async def relay_attach(
    client: KubeClient,
    pod: RemotePod,
    container: str,
    streams: CommandStreams,
    *,
    tty: bool,
) -> ExitStatus:
    """Attach to a remote container's main process until it ends; see `Provider.attach`."""
    query = build_query(container, streams, tty=tty)
    return await _relay(client, pod, "attach", query, streams, tty=tty)


def build_query(
    container: str, streams: CommandStreams, *, tty: bool, command: Sequence[str] = ()
) -> Query:
    """
    Build the query of `pods/NAME/exec` and `attach`.

    A terminal has no stderr of its own, and asking for both is an error.
    """
    flags = {
        "stdin": streams.stdin,
        "stdout": streams.stdout,
        "stderr": streams.stderr and not tty,
        "tty": tty,
    }
    return [
        ("container", container),
        *(("command", word) for word in command),
        *((name, "true") for name, is_set in flags.items() if is_set),
    ]


async def _relay(
    client: KubeClient,
    pod: RemotePod,
    subresource: str,
    query: Query,
    streams: CommandStreams,
    *,
    tty: bool,
) -> ExitStatus:
    what = f"pods/{subresource}"
    refusals: list[KubeError] = []
    for open_link in _list_ways(client, pod, subresource, query, streams, tty=tty):
        started = False
        try:
            async with open_link() as link:
                started = True
                status = await RemoteCommand(link, streams, tty=tty).run()
        except KubeError as error:
            if started:
                logger.warning("%s: %s broke off: %s", pod.key, what, error)
                return ExitStatus(None, "the connection to the remote cluster broke")
            if not refuses_protocol(error):
                raise pod.build_error(what, error) from error
            logger.debug("%s: %s: trying another protocol: %s", pod.key, what, error)
            refusals.append(error)
            continue
        if status.code is None:
            logger.info("%s: %s: no exit code: %s", pod.key, what, status.message)
        return ExitStatus(status.code, pod.hide(status.message))
    refusal = choose_refusal(refusals)
    raise pod.build_error(what, refusal) from refusal


def choose_refusal(refusals: Sequence[KubeError]) -> KubeError:
    """Choose which of several refusals is told: the first that has words."""
    return next((it for it in refusals if isinstance(it, StatusError)), refusals[0])


def _list_ways(
    client: KubeClient,
    pod: RemotePod,
    subresource: str,
    query: Query,
    streams: CommandStreams,
    *,
    tty: bool,
) -> Sequence[OpenLink]:
    """
    List how a command can be carried, best first.

    Where stdin has an end that the command must see, v4 is the last resort; offered beside v5 it
    might be chosen, and then the command would have been started already.
    """
    path = PODS.path(pod.key.namespace, pod.key.name, subresource)

    def over_websocket(*protocols: str) -> OpenLink:
        return lambda: _open_websocket_link(client, path, query, protocols)

    def over_spdy() -> AbstractAsyncContextManager[SpdyLink]:
        return open_spdy_link(client, path, query, streams, tty=tty)

    if streams.stdin and not tty:
        return (over_websocket(PROTOCOL_V5), over_spdy, over_websocket(PROTOCOL_V4))
    return (over_websocket(*WEBSOCKET_PROTOCOLS), over_spdy)


@asynccontextmanager
async def _open_websocket_link(
    client: KubeClient, path: str, query: Query, protocols: Sequence[str]
) -> AsyncIterator[WebSocketLink]:
    async with client.connect_websocket(path, query, protocols=protocols) as websocket:
        yield WebSocketLink(websocket)
