"""What protocol a request to leave HTTP gets: over SPDY or over a WebSocket."""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from vkubelet.errors import RequestError
from vkubelet.server.authorization import is_upgrade
from vkubelet.server.errors import respond_status, respond_text
from vkubelet.streaming.channels import negotiate_protocol

SPDY = "SPDY/3.1"
PROTOCOL_HEADER = "X-Stream-Protocol-Version"
ACCEPTED_HEADER = "X-Accepted-Stream-Protocol-Versions"
WEBSOCKET_PROTOCOL_HEADER = "Sec-WebSocket-Protocol"
WEBSOCKET_VERSION = "13"

_WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3


class UpgradeRefusedError(RequestError):
    """
    The request can't leave HTTP as it wants to.

    Attributes:
        headers: Of the answer: what would do.
    """

    def __init__(self, code: int, message: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(code, f"unable to upgrade: {message}")
        self.headers = tuple(headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """
    What the connection will speak.

    Attributes:
        is_websocket: Whether it's a WebSocket, else SPDY.
        protocol: What is spoken over that.
        headers: Of the 101.
    """

    is_websocket: bool
    protocol: str
    headers: dict[str, str]


def refuse_upgrade(request: web.BaseRequest, error: RequestError) -> web.Response:
    """Answer a request that fails before its 101; by plain text if it isn't an upgrade at all."""
    response = respond_status(error) if is_upgrade(request) else respond_text(error)
    if isinstance(error, UpgradeRefusedError):
        response.headers.extend(error.headers)
    return response


def negotiate_upgrade(
    request: web.BaseRequest, *, spdy: Sequence[str], websocket: Sequence[str]
) -> Upgrade:
    """
    Choose the first protocol of the client's list that we serve.

    Args:
        request: The request.
        spdy: What is served over SPDY.
        websocket: What is served over WebSockets; "" for clients that name nothing.

    Raises:
        RequestError: 500 in a kubelet's words if it isn't an upgrade at all.
        UpgradeRefusedError: 400 if it isn't a proper upgrade, 403 if there is no common protocol.
    """
    if not is_upgrade(request):
        raise RequestError(500, "Upgrade request required")
    upgrade = request.headers.get("Upgrade", "").lower()
    if "websocket" in upgrade:
        return _negotiate_websocket(request, websocket)
    if SPDY.lower() in upgrade:
        return _negotiate_spdy(request, spdy)
    raise UpgradeRefusedError(400, "missing upgrade headers in request")


def list_protocols(request: web.BaseRequest, header: str) -> list[str]:
    """Return the values of a header that may be repeated and hold lists."""
    lines = request.headers.getall(header, [])
    return [part.strip() for line in lines for part in line.split(",") if part.strip()]


def _negotiate_spdy(request: web.BaseRequest, served: Sequence[str]) -> Upgrade:
    offered = list_protocols(request, PROTOCOL_HEADER)
    if not offered:
        raise UpgradeRefusedError(400, f"header {PROTOCOL_HEADER} does not exist in request")
    protocol = negotiate_protocol(offered, served)
    if protocol is None:
        raise UpgradeRefusedError(
            403,
            _explain_no_common(offered, served),
            [(ACCEPTED_HEADER, name) for name in served],
        )
    headers = {"Upgrade": SPDY, PROTOCOL_HEADER: protocol}
    return Upgrade(is_websocket=False, protocol=protocol, headers=headers)


def _explain_no_common(offered: Sequence[str], served: Sequence[str]) -> str:
    """Explain in a kubelet's words, with lists as Go prints them."""
    return (
        f"unable to negotiate protocol: client supports [{' '.join(offered)}], "
        f"server accepts [{' '.join(served)}]"
    )


def _negotiate_websocket(request: web.BaseRequest, served: Sequence[str]) -> Upgrade:
    """Check the handshake (RFC 6455 section 4.2.1)."""
    if request.method != "GET":
        raise UpgradeRefusedError(400, "a WebSocket begins with GET")
    if request.headers.get("Sec-WebSocket-Version") != WEBSOCKET_VERSION:
        raise UpgradeRefusedError(
            400,
            f"WebSocket version {WEBSOCKET_VERSION} is required",
            [("Sec-WebSocket-Version", WEBSOCKET_VERSION)],
        )
    key = request.headers.get("Sec-WebSocket-Key", "").strip()
    if not _is_key(key):
        raise UpgradeRefusedError(400, "Sec-WebSocket-Key is missing or isn't 16 bytes in base64")
    offered = list_protocols(request, WEBSOCKET_PROTOCOL_HEADER) or [""]
    protocol = negotiate_protocol(offered, served)
    if protocol is None:
        named = [name for name in served if name]
        raise UpgradeRefusedError(403, _explain_no_common(_hide_tokens(offered), named))
    digest = hashlib.sha1(key.encode() + _WEBSOCKET_GUID, usedforsecurity=False).digest()
    headers = {"Upgrade": "websocket", "Sec-WebSocket-Accept": base64.b64encode(digest).decode()}
    if protocol:
        headers[WEBSOCKET_PROTOCOL_HEADER] = protocol
    return Upgrade(is_websocket=True, protocol=protocol, headers=headers)


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False


def _hide_tokens(offered: list[str]) -> list[str]:
    return [name for name in offered if "bearer.authorization" not in name]
