"""The gate in front of all endpoints: who calls, may they, and how refusals read."""

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from vkubelet.errors import RequestError
from vkubelet.server.authentication import User
from vkubelet.server.connections import Connections
from vkubelet.server.errors import respond_text
from vkubelet.server.services import NODE_CONTEXT
from vkubelet.server.tls import ServingTls

_SUBTREES = frozenset(
    ("attach", "containerLogs", "exec", "pods", "portForward", "runningpods", "stats")
)
"""Below these a kubelet says in other words that there is nothing."""


def build_gate(connections: Connections, tls: ServingTls) -> Middleware:
    """Build the middleware that checks each request before it's routed."""

    @web.middleware
    async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
        context = request.app[NODE_CONTEXT]
        client_ca = tls.client_ca
        with connections.hold(request):
            user = await context.services.authenticator.authenticate(request)
            if user is None:
                return _refuse(respond_text(RequestError(401, "Unauthorized")))
            response = await _handle(request, handler, user, connections)
        if client_ca != tls.client_ca:
            response.force_close()
        return response

    return gate


async def _handle(
    request: web.Request, handler: Handler, user: User, connections: Connections
) -> web.StreamResponse:
    context = request.app[NODE_CONTEXT]
    try:
        await context.services.authorizer.authorize(user, request, context.node_name)
        connections.welcome(request)
        return await handler(request)
    except RequestError as error:
        return respond_text(error)
    except web.HTTPNotFound:
        in_subtree = request.path.split("/")[1] in _SUBTREES
        text = "404: Page Not Found" if in_subtree else "404 page not found"
        return respond_text(RequestError(404, text))
    except web.HTTPMethodNotAllowed as error:
        response = respond_text(RequestError(405, "405: Method Not Allowed"))
        response.headers["Allow"] = error.headers["Allow"]
        return response


def _refuse(response: web.Response) -> web.Response:
    """Close the connection after the answer: strangers don't get to keep one."""
    response.force_close()
    return response
