"""Small servers on loopback, and kubeconfigs that lead to them."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def kubeconfig(
    server: str, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A kubeconfig with one context, as a document."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "main", "user": "main"}}],
        "clusters": [{"name": "main", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "main", "user": user if user is not None else {"token": "secret"}}],
    }


def write_kubeconfig(path: Path, server: str, **sections: dict[str, Any]) -> Path:
    """Replace the file in one step, as credential rotation does."""
    return replace_file(path, json.dumps(kubeconfig(server, **sections)))


def replace_file(path: Path, text: str) -> Path:
    """Replace a file by rename, so that nobody reads half of it."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    return fresh.rename(path)


@asynccontextmanager
async def serve(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Answer every request by the handler; gives the URL."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_bytes(answer: bytes, *, then_reset: bool = False) -> AsyncIterator[str]:
    """Answer each connection's first request by bytes as they are, then close."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        if then_reset:
            writer.transport.abort()
        else:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def connect(
    folder: Path, server: str, *, timeout_seconds: float = 5.0, **sections: dict[str, Any]
) -> AsyncIterator[KubeClient]:
    """A client named "home" by way of a kubeconfig in the folder."""
    access = await load_kubeconfig(write_kubeconfig(folder / "config", server, **sections), None)
    async with KubeClient(access, name="home", request_timeout_seconds=timeout_seconds) as client:
        yield client


def status(code: int, reason: str, message: str = "no", **more: Any) -> dict[str, Any]:
    """A Status object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        **more,
    }


def refuse(
    code: int, reason: str, *, headers: dict[str, str] | None = None, **more: Any
) -> web.Response:
    """An answer that is a Status."""
    return web.json_response(status(code, reason, **more), status=code, headers=headers)


class Proxy:
    """
    An HTTP proxy that knows CONNECT.

    Attributes:
        refuse: Whether it answers 407.
        heads: What came.
    """

    def __init__(self, *, refuse: bool = False) -> None:
        self.refuse = refuse
        self.heads: list[str] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def listen(self, login: str = "") -> AsyncIterator[str]:
        """Serve; gives the URL, with a login in front of the host if there is one."""
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        async with server:
            yield f"http://{login}127.0.0.1:{server.sockets[0].getsockname()[1]}"
            for writer in self._open:
                writer.transport.abort()
            await self._idle.wait()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self._idle.clear()
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if self.refuse:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await self._relay(reader, writer, head.split()[1])
        finally:
            writer.close()
            self._open.discard(writer)
            if not self._open:
                self._idle.set()

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str
    ) -> None:
        host, _, port = target.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._copy(reader, back))
            group.create_task(self._copy(there, writer))

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                target.write(data)
        except OSError:
            pass
        target.close()
