"""A door to a node's port for those who come without credentials, as API servers do to a pod's."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

WAIT_SECONDS = 60.0
_POLL_SECONDS = 1.0


@contextlib.asynccontextmanager
async def open_door(
    listener: socket.socket, kubelet: str, client: ssl.SSLContext, server: ssl.SSLContext
) -> AsyncIterator[None]:
    """
    Pass requests on to a node's port with a client certificate, while the block runs.

    Use of a fresh pod isn't known at once, and who comes by this door doesn't ask twice: an answer
    is given when it tells of all running pods, or after `WAIT_SECONDS`.

    Args:
        listener: Where to listen.
        kubelet: URL of the node's port.
        client: TLS to there, with the certificate.
        server: TLS of the door.
    """
    connector = aiohttp.TCPConnector(ssl=client)
    async with aiohttp.ClientSession(kubelet, connector=connector) as http:
        application = web.Application()

        async def read(path: str) -> tuple[int, bytes, str]:
            async with http.get(path) as answer:
                kind = answer.headers.get("Content-Type", "")
                return answer.status, await answer.read(), kind

        async def pass_on(request: web.Request) -> web.Response:
            async with http.get("/runningpods/") as answer:
                pods = (await answer.json())["items"] or []
            names = [str(pod["metadata"]["name"]).encode() for pod in pods]
            status, body, kind = await read(request.path_qs)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    while status == 200 and not all(name in body for name in names):
                        await asyncio.sleep(_POLL_SECONDS)
                        status, body, kind = await read(request.path_qs)
            return web.Response(status=status, body=body, headers={"Content-Type": kind})

        application.router.add_get("/{path:.*}", pass_on)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await web.SockSite(runner, listener, ssl_context=server).start()
            yield
        finally:
            await runner.cleanup()
