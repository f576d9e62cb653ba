"""The process's own /livez, /readyz and /metrics."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest

from provider.checks import ListenAddress
from provider.errors import StartError
from vkubelet.server.http_log import http_logger

TASKS = Gauge("vkubelet_tasks", "Tasks of the process that haven't ended.")


class HealthServer:
    """
    Answers probes and Prometheus.

    `not_ready` returns why the process isn't ready, "" when it is: /readyz shows it with 503.
    """

    def __init__(self, address: ListenAddress, not_ready: Callable[[], str]) -> None:
        self._address = address
        self._not_ready = not_ready

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """
        Listen while the context is open.

        Raises:
            StartError: If the address can't be listened on.
        """
        application = web.Application()
        application.add_routes(
            [
                web.get("/livez", self._handle_livez),
                web.get("/readyz", self._handle_readyz),
                web.get("/metrics", self._handle_metrics),
            ]
        )
        runner = web.AppRunner(
            application, access_log=None, logger=http_logger, shutdown_timeout=1.0
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._address.host or None, self._address.port)
            try:
                await site.start()
            except OSError as error:
                raise StartError(
                    f"--health-address {self._address}: can't listen: {error.strerror or error}"
                ) from error
            yield
        finally:
            await runner.cleanup()

    async def _handle_livez(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _handle_readyz(self, _request: web.Request) -> web.Response:
        reason = self._not_ready()
        if reason:
            return web.Response(status=503, text=f"not ready: {reason}\n")
        return web.Response(text="ok\n")

    async def _handle_metrics(self, _request: web.Request) -> web.Response:
        TASKS.set(len(asyncio.all_tasks()))
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
