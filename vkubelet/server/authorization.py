"""What a user may do with a node's kubelet API: SubjectAccessReview on `nodes/<subresource>`."""

import asyncio
import logging
from dataclasses import dataclass

from aiohttp import web

from vkubelet.errors import RequestError
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError
from vkubelet.kube.objects import SUBJECT_ACCESS_REVIEWS, KubeObject
from vkubelet.server.authentication import MAX_CONCURRENT_REVIEWS, User
from vkubelet.server.expiring import ExpiringCache

logger = logging.getLogger(__name__)

ALLOWED_CACHE_SECONDS = 5 * 60.0
DENIED_CACHE_SECONDS = 30.0
"""How long the API server's word holds; the real kubelet's defaults."""

MAX_CACHED_REVIEWS = 4096
"""Users times verbs times subresources; API servers and scrapers are few."""

_VERBS = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}

_SUBRESOURCES = (
    ("/stats", ("stats",)),
    ("/metrics", ("metrics",)),
    ("/logs", ("log",)),
    ("/checkpoint", ("checkpoint",)),
    ("/pods", ("pods", "proxy")),
    ("/runningpods", ("pods", "proxy")),
    ("/healthz", ("healthz", "proxy")),
    ("/configz", ("configz", "proxy")),
    ("/statusz", ("statusz", "proxy")),
)


@dataclass(frozen=True, slots=True)
class _Attributes:
    user: User
    verb: str
    subresource: str
    node_name: str


class Authorizer:
    """Asks the API server, once and again after a while, what a user may do."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._answers: ExpiringCache[_Attributes, bool] = ExpiringCache(MAX_CACHED_REVIEWS)
        self._reviews = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)

    async def authorize(self, user: User, request: web.BaseRequest, node_name: str) -> None:
        """
        Check that the user may make this request to this node.

        Raises:
            RequestError: 403 if not, 500 if the API server can't say.
        """
        subresources = list_subresources(request.path)
        for verb in list_verbs(request):
            for subresource in subresources:
                if await self._is_allowed(_Attributes(user, verb, subresource, node_name)):
                    break
            else:
                raise RequestError(
                    403,
                    f"Forbidden (user={user.name}, verb={verb}, resource=nodes, "
                    f"subresource(s)=[{' '.join(subresources)}])\n",
                )

    async def _is_allowed(self, attributes: _Attributes) -> bool:
        async with self._reviews:
            allowed = self._answers.get(attributes)
            if allowed is None:
                allowed = await self._review(attributes)
                seconds = ALLOWED_CACHE_SECONDS if allowed else DENIED_CACHE_SECONDS
                self._answers.put(attributes, allowed, seconds)
        return allowed

    async def _review(self, attributes: _Attributes) -> bool:
        try:
            review = await self._client.create(
                SUBJECT_ACCESS_REVIEWS, build_access_review(attributes)
            )
        except KubeError as error:
            logger.warning("%s: access couldn't be reviewed: %s", attributes.node_name, error)
            raise RequestError(
                500,
                f"Authorization error (user={attributes.user.name}, verb={attributes.verb}, "
                f"resource=nodes, subresource={attributes.subresource})",
            ) from error
        match review:
            case {"status": {"allowed": True, **rest}}:
                return not rest.get("denied")
            case _:
                return False


def list_verbs(request: web.BaseRequest) -> tuple[str, ...]:
    """
    Return the verbs that a request needs.

    A WebSocket's GET can do what a POST does: with `get` alone, nobody should run commands.
    """
    verb = _VERBS.get(request.method, "")
    return (verb, "create") if verb == "get" and is_upgrade(request) else (verb,)


def is_upgrade(request: web.BaseRequest) -> bool:
    """Return whether the request wants to leave HTTP."""
    values = ",".join(request.headers.getall("Connection", ())).lower().split(",")
    return "upgrade" in (value.strip() for value in values)


def list_subresources(path: str) -> tuple[str, ...]:
    """Return the subresources of a node that a path stands for; one that is allowed will do."""
    for prefix, subresources in _SUBRESOURCES:
        if path == prefix or path.startswith(f"{prefix}/"):
            return subresources
    return ("proxy",)


def build_access_review(attributes: _Attributes) -> KubeObject:
    """Build the question whether a user may do this."""
    user = attributes.user
    spec: KubeObject = {
        "user": user.name,
        "groups": list(user.groups),
        "resourceAttributes": {
            "verb": attributes.verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": attributes.subresource,
            "name": attributes.node_name,
        },
    }
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}
    return {
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": spec,
    }
