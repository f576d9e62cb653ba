"""Sessions: what their requests and sockets are like."""

import socket

from aiohttp import web

from tests.vkubelet.kube.serving import serve
from vkubelet.kube.sessions import open_session


async def test_headers_and_keepalive() -> None:
    heads: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        heads.append(dict(request.headers))
        return web.Response(headers={"Set-Cookie": "a=b"})

    async with serve(answer) as url, open_session("identity") as session:
        for _ in range(2):
            async with session.get(url) as response:
                assert response.connection is None or _is_watched(response.connection.transport)
    assert heads[1]["Accept-Encoding"] == "identity"
    assert heads[1]["User-Agent"].startswith("vkubelet/")
    assert "Cookie" not in heads[1]


def _is_watched(transport: object) -> bool:
    opened = transport.get_extra_info("socket")  # type: ignore[attr-defined]  # a transport
    return bool(opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
