"""A proxy in front of a real API server that fails as networks and busy servers do."""

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web

from tests.cluster.cluster import Cluster
from tests.cluster.peering import USER
from tests.cluster.processes import ReservedPort

FAILING = 0.06
"""Share of calls that fail while there are faults."""

LOST = 0.03
"""Share of calls that are obeyed while there are faults, but whose answers get lost."""

WATCH_SECONDS = (1.0, 8.0)
"""How long watches hold while there are faults."""

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "host"})


class FaultyProxy:
    """
    Passes calls on in the product's name; `faults` switches trouble on and off.

    Attributes:
        faults: Whether calls fail and watches are cut.
        injected: How many did.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._port = ReservedPort()
        self._session: aiohttp.ClientSession | None = None
        self.faults = False
        self.injected = 0

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[Path]:
        """Serve until the end of the context; yields the kubeconfig that leads here."""
        folder = self._cluster.folder
        pair = self._cluster.serving_ca.issue_server("proxy", ["127.0.0.1"])
        certificate, key = pair.write(folder, "chaos-proxy")
        incoming = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        incoming.load_cert_chain(certificate, key)
        outgoing = ssl.create_default_context(cafile=folder / "serving-ca.crt")
        outgoing.load_cert_chain(
            folder / "front-proxy-client.crt", folder / "front-proxy-client.key"
        )
        connector = aiohttp.TCPConnector(ssl=outgoing, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as self._session:
            application = web.Application(client_max_size=2**24)
            application.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(application, handle_signals=False, shutdown_timeout=0.1)
            await runner.setup()
            self._port.close()
            site = web.TCPSite(runner, "127.0.0.1", self._port.number, ssl_context=incoming)
            try:
                await site.start()
                yield self._write_kubeconfig()
            finally:
                await runner.cleanup()

    def _write_kubeconfig(self) -> Path:
        cluster = {
            "server": f"https://127.0.0.1:{self._port.number}",
            "certificate-authority": str(self._cluster.folder / "serving-ca.crt"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "main", "cluster": cluster}],
            "users": [{"name": "main", "user": {"token": "passed-on-in-its-name"}}],
            "contexts": [{"name": "main", "context": {"cluster": "main", "user": "main"}}],
            "current-context": "main",
        }
        path = self._cluster.folder / "chaos.kubeconfig"
        path.write_bytes(msgspec.json.encode(config))
        return path

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        is_watch = request.query.get("watch", "") in ("1", "true")
        if self.faults and not is_watch and self._random.random() < FAILING:
            self.injected += 1
            return self._fail(request)
        assert self._session is not None
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _HOP_BY_HOP
        }
        headers.pop("Authorization", None)
        headers |= {"X-Remote-User": USER, "X-Remote-Group": "system:authenticated"}
        try:
            async with self._session.request(
                request.method,
                f"{self._cluster.server}{request.raw_path}",
                headers=headers,
                data=await request.read(),
            ) as upstream:
                if self.faults and not is_watch and self._random.random() < LOST:
                    return await self._lose(request, upstream)
                return await self._pass_on(request, upstream, is_watch=is_watch)
        except aiohttp.ClientError:
            return _answer(502, "InternalError", "nobody is there")

    async def _pass_on(
        self, request: web.Request, upstream: aiohttp.ClientResponse, *, is_watch: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=upstream.status)
        for name, value in upstream.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                response.headers[name] = value
        await response.prepare(request)
        held = self._random.uniform(*WATCH_SECONDS) if is_watch and self.faults else None
        try:
            async with asyncio.timeout(held):
                async for chunk in upstream.content.iter_any():
                    await response.write(chunk)
        except TimeoutError:
            self.injected += 1
            if self._random.random() < 0.5 and request.transport is not None:
                request.transport.abort()  # cut, maybe within a line
        except aiohttp.ClientError:
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _lose(
        self, request: web.Request, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Have the API server do what it's asked for, and the caller not know."""
        await upstream.read()
        self.injected += 1
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _fail(self, request: web.Request) -> web.Response:
        kinds = [
            _answer(429, "TooManyRequests", "slow down", {"Retry-After": "1"}),
            _answer(500, "InternalError", "injected"),
            _answer(503, "ServiceUnavailable", "injected"),
        ]
        if request.method in ("PATCH", "PUT"):
            kinds.append(_answer(409, "Conflict", "injected"))
        return self._random.choice(kinds)


def _answer(
    code: int, reason: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.json_response(status, status=code, headers=headers)
