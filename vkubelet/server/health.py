"""`/healthz`: this port answers."""

from aiohttp import web


async def get_health(_request: web.Request) -> web.Response:
    """Answer as a kubelet that is well."""
    return web.Response(text="ok", content_type="text/plain")
