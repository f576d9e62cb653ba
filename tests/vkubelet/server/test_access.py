import asyncio
from pathlib import Path

import pytest

from tests.vkubelet.server.harness import CLIENT_CA, MASTERS, OTHER_CA, serve

pytestmark = pytest.mark.virtual_time


async def test_who_comes_before_whether_before_what(tmp_path: Path) -> None:
    async with serve(tmp_path) as node:
        answers = []
        for context in (
            node.context(None),
            node.context("alice", []),
            node.context("master", [MASTERS]),
        ):
            async with node.http(context) as http, http.get("/nothing") as response:
                answers.append((response.status, await response.text()))
    assert answers == [
        (401, "Unauthorized"),
        (403, "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[proxy])\n"),
        (404, "404 page not found"),
    ]


async def test_request_under_way_when_the_client_ca_changes_is_the_last(tmp_path: Path) -> None:
    async with serve(tmp_path) as node:
        node.api.delay_next("create subjectaccessreviews", 5)
        async with node.http() as http, asyncio.TaskGroup() as group:

            async def get() -> str:
                async with http.get("/healthz") as response:
                    return response.headers.get("Connection", "")

            answer = group.create_task(get())
            await node.api.wait_for_calls("create subjectaccessreviews")
            node.tls.replace_client_ca(CLIENT_CA.pem + OTHER_CA.pem)
        assert answer.result() == "close"
