from pathlib import Path

import pytest

from tests.vkubelet.server.harness import serve

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("path", ["/healthz", "/healthz/ping", "/healthz/log", "/healthz/syncloop"])
async def test_health(tmp_path: Path, path: str) -> None:
    async with serve(tmp_path) as node, node.http() as http, http.get(path) as response:
        assert (response.status, await response.text()) == (200, "ok")
        assert response.content_type == "text/plain"


async def test_any_method_will_do(tmp_path: Path) -> None:
    async with serve(tmp_path) as node, node.http() as http, http.post("/healthz") as response:
        assert (response.status, await response.text()) == (200, "ok")


async def test_unknown_check(tmp_path: Path) -> None:
    async with serve(tmp_path) as node, node.http() as http, http.get("/healthz/x") as response:
        assert response.status == 404
