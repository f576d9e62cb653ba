import json

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from tests.vkubelet.server.websocket_client import ACCEPT, HANDSHAKE, KEY
from vkubelet.errors import RequestError
from vkubelet.server.upgrade import (
    Upgrade,
    UpgradeRefusedError,
    list_protocols,
    negotiate_upgrade,
    refuse_upgrade,
)

SPDY = (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"))
TOKEN = "base64url.bearer.authorization.k8s.io.c2VjcmV0"
Pairs = tuple[tuple[str, str], ...]


def negotiate(headers: Pairs, method: str = "GET") -> Upgrade:
    request = make_mocked_request(method, "/exec", headers=CIMultiDict(headers))
    return negotiate_upgrade(request, spdy=("v4", "v3"), websocket=("v5", "v4", ""))


def offer(*lines: str, websocket: bool = True) -> Pairs:
    name = "Sec-WebSocket-Protocol" if websocket else "X-Stream-Protocol-Version"
    return (*(HANDSHAKE if websocket else SPDY), *((name, line) for line in lines))


@pytest.mark.parametrize(
    ("lines", "protocol"),
    [(("v4",), "v4"), (("v9, v3", "v4"), "v3"), (("v5", "v4,v3"), "v4")],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_spdy(lines: tuple[str, ...], protocol: str, method: str) -> None:
    assert negotiate(offer(*lines, websocket=False), method) == Upgrade(
        is_websocket=False,
        protocol=protocol,
        headers={"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": protocol},
    )


@pytest.mark.parametrize(
    ("lines", "protocol"),
    [(("v4",), "v4"), (("v9", "v4, v5"), "v4"), (("v5", "v4"), "v5"), ((TOKEN, "v4"), "v4")],
)
def test_websocket(lines: tuple[str, ...], protocol: str) -> None:
    assert negotiate(offer(*lines)) == Upgrade(
        is_websocket=True,
        protocol=protocol,
        headers={
            "Upgrade": "websocket",
            "Sec-WebSocket-Accept": ACCEPT,
            "Sec-WebSocket-Protocol": protocol,
        },
    )


def test_websocket_without_a_protocol() -> None:
    upgrade = negotiate(HANDSHAKE)
    assert (upgrade.is_websocket, upgrade.protocol) == (True, "")
    assert "Sec-WebSocket-Protocol" not in upgrade.headers


def without(name: str) -> Pairs:
    return tuple(pair for pair in HANDSHAKE if pair[0] != name)


@pytest.mark.parametrize(
    ("headers", "code", "message"),
    [
        ((), 500, "Upgrade request required"),
        ((("Connection", "Upgrade"), ("Upgrade", "h2c")), 400, "missing upgrade headers"),
        (SPDY, 400, "header X-Stream-Protocol-Version does not exist"),
        (offer("v9", websocket=False), 403, "unable to negotiate protocol: client supports [v9]"),
        (without("Connection"), 500, "Upgrade request required"),
        (without("Sec-WebSocket-Version"), 400, "WebSocket version 13 is required"),
        (without("Sec-WebSocket-Key"), 400, "Sec-WebSocket-Key is missing"),
        (
            (*without("Sec-WebSocket-Key"), ("Sec-WebSocket-Key", "c2hvcnQ=")),
            400,
            "isn't 16 bytes in base64",
        ),
        (
            (*without("Sec-WebSocket-Key"), ("Sec-WebSocket-Key", f"{KEY}ü")),
            400,
            "isn't 16 bytes in base64",
        ),
        (offer("v9", TOKEN), 403, "client supports [v9], server accepts [v5 v4]"),
    ],
)
def test_refused(headers: Pairs, code: int, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        negotiate(headers)
    assert caught.value.code == code
    assert message in caught.value.message
    assert isinstance(caught.value, UpgradeRefusedError) == (code != 500)
    assert caught.value.message.startswith("unable to upgrade: ") == (code != 500)


def test_websockets_begin_with_get() -> None:
    with pytest.raises(UpgradeRefusedError, match="GET"):
        negotiate(offer("v4"), "POST")


def test_answers() -> None:
    with pytest.raises(UpgradeRefusedError) as caught:
        negotiate(offer("v9", websocket=False))
    upgrade = make_mocked_request("POST", "/exec", headers=CIMultiDict(SPDY))
    response = refuse_upgrade(upgrade, caught.value)
    assert response.status == 403
    assert response.headers.getall("X-Accepted-Stream-Protocol-Versions") == ["v4", "v3"]
    assert isinstance(response.body, bytes)
    assert json.loads(response.body)["message"] == caught.value.message
    assert refuse_upgrade(upgrade, RequestError(404, "no")).content_type == "application/json"
    plain = refuse_upgrade(make_mocked_request("POST", "/exec"), RequestError(404, "no"))
    assert (plain.status, plain.text, plain.content_type) == (404, "no", "text/plain")


def test_lists() -> None:
    request = make_mocked_request("GET", "/", headers=CIMultiDict([("A", "b, c,,"), ("A", " d")]))
    assert list_protocols(request, "A") == ["b", "c", "d"]
    assert list_protocols(request, "B") == []
