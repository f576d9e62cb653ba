import asyncio
import base64
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request

from tests.vkubelet.server.harness import MASTERS, TOKEN, Harness, serve
from vkubelet.server.authentication import (
    AUTHENTICATED_GROUP,
    TOKEN_CACHE_SECONDS,
    User,
    read_certificate,
    read_token,
)

pytestmark = pytest.mark.virtual_time

WEBSOCKET = {"Upgrade": "websocket"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path) as harness:
        yield harness


async def get_with_token(node: Harness, authorization: str) -> int:
    context = node.context(None)
    async with (
        node.http(context) as http,
        http.get("/healthz", headers={"Authorization": authorization}) as response,
    ):
        if response.status == 401:
            assert await response.text() == "Unauthorized"
            assert response.content_type == "text/plain"
            assert response.headers["Connection"] == "close"
        return response.status


async def test_nobody_is_let_in(node: Harness) -> None:
    for path in ("/healthz", "/containerLogs/ns/pod/c", "/nothing"):
        async with node.http(node.context(None)) as http, http.get(path) as response:
            assert (response.status, await response.text()) == (401, "Unauthorized")
    assert not node.api.requests


@pytest.mark.parametrize(
    "authorization", ["Bearer wrong", "Bearer ", "Bearer", f"Basic {TOKEN}", TOKEN, "Bearer \u00e9"]
)
async def test_bad_credentials(node: Harness, authorization: str) -> None:
    assert await get_with_token(node, authorization) == 401


async def test_certificate_names_user_and_groups(node: Harness) -> None:
    context = node.context("kube-apiserver", ["kubeadm:cluster-admins", MASTERS])
    async with node.http(context) as http, http.get("/healthz") as response:
        assert (response.status, await response.text()) == (200, "ok")
    (review,) = node.api.calls("create subjectaccessreviews")
    assert review.body["spec"]["user"] == "kube-apiserver"
    groups = ["kubeadm:cluster-admins", MASTERS, AUTHENTICATED_GROUP]
    assert review.body["spec"]["groups"] == groups
    assert not node.api.calls("create tokenreviews")


async def test_token_names_everything(node: Harness) -> None:
    assert await get_with_token(node, f"Bearer {TOKEN}") == 200
    (review,) = node.api.calls("create subjectaccessreviews")
    assert review.body["spec"]["user"] == "robot"
    assert review.body["spec"]["uid"] == "7"
    assert review.body["spec"]["groups"] == [MASTERS, AUTHENTICATED_GROUP]
    assert review.body["spec"]["extra"] == {"k": ["v"]}


@pytest.mark.parametrize("token", [TOKEN, "wrong"])
async def test_answers_are_kept_for_two_minutes(node: Harness, token: str) -> None:
    for expected in (1, 1):
        await get_with_token(node, f"Bearer {token}")
        assert len(node.api.calls("create tokenreviews")) == expected
    await asyncio.sleep(TOKEN_CACHE_SECONDS + 1)
    await get_with_token(node, f"Bearer {token}")
    assert len(node.api.calls("create tokenreviews")) == 2


async def test_failed_review_is_401_and_not_kept(node: Harness) -> None:
    node.api.fail_next("create tokenreviews", 403)
    assert await get_with_token(node, f"Bearer {TOKEN}") == 401
    assert await get_with_token(node, f"Bearer {TOKEN}") == 200


def test_certificates() -> None:
    def subject(*pairs: tuple[str, str]) -> dict[str, object]:
        return {"subject": tuple((pair,) for pair in pairs)}

    user = read_certificate(subject(("organizationName", "g"), ("commonName", "u")))
    assert user == User("u", groups=("g", AUTHENTICATED_GROUP))
    assert read_certificate(subject(("organizationName", "g"))) is None
    old = {**subject(("commonName", "u")), "notAfter": "Jan  1 00:00:00 2020 GMT"}
    assert read_certificate(old) is None


def encode_token(token: str) -> str:
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    return f"base64url.bearer.authorization.k8s.io.{encoded}"


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"Authorization": "Bearer abc"}, "abc"),
        ({"Authorization": "Basic abc"}, None),
        ({}, None),
        ({"Sec-WebSocket-Protocol": f"v4, {encode_token('abcd')}"}, None),
        ({**WEBSOCKET, "Sec-WebSocket-Protocol": f"v4, {encode_token('abcd')}"}, "abcd"),
        ({**WEBSOCKET, "Sec-WebSocket-Protocol": f"{encode_token('a?~')},v4"}, "a?~"),
        ({**WEBSOCKET, "Sec-WebSocket-Protocol": encode_token("abcd")}, None),
        (
            {**WEBSOCKET, "Sec-WebSocket-Protocol": f"{encode_token('a')}, {encode_token('b')}"},
            None,
        ),
        ({**WEBSOCKET, "Sec-WebSocket-Protocol": f"v4, {encode_token('')}!"}, None),
        ({**WEBSOCKET, "Sec-WebSocket-Protocol": "v4"}, None),
        (
            {
                **WEBSOCKET,
                "Authorization": "Basic x",
                "Sec-WebSocket-Protocol": f"v4, {encode_token('abcd')}",
            },
            None,
        ),
    ],
)
def test_where_tokens_are(headers: dict[str, str], token: str | None) -> None:
    assert read_token(make_mocked_request("GET", "/exec", headers=headers)) == token
