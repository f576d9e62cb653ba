"""`/pods` and `/runningpods/`."""

from pathlib import Path
from typing import Any

import pytest

from tests.vkubelet.server.harness import POD, serve
from vkubelet.kube.objects import KubeObject


def with_states(**lists: list[KubeObject]) -> KubeObject:
    status = {
        kind: [{"name": str(number), "state": state} for number, state in enumerate(states)]
        for kind, states in lists.items()
    }
    return {**POD, "status": {"phase": "Running", **status}}


RUNNING: KubeObject = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED: KubeObject = {"terminated": {"exitCode": 0}}


@pytest.mark.parametrize("path", ["/pods", "/pods/", "/runningpods/"])
@pytest.mark.parametrize("runs", [True, False])
async def test_lists(tmp_path: Path, path: str, runs: bool) -> None:
    pod = with_states(containerStatuses=[RUNNING if runs else ENDED])
    async with serve(tmp_path) as harness, harness.http() as http:
        harness.pods.pod = pod
        async with http.get(path) as response:
            assert response.status == 200
            assert response.content_type == "application/json"
            answer: dict[str, Any] = await response.json()
    items = [pod] if runs or path != "/runningpods/" else []
    assert answer == {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}


async def test_methods(tmp_path: Path) -> None:
    async with serve(tmp_path) as harness, harness.http() as http:
        for path in ("/pods", "/runningpods/"):
            async with http.post(path) as response:
                assert response.status == 405
        async with http.get("/runningpods", allow_redirects=False) as response:
            assert response.status == 301
            assert response.headers["Location"] == "/runningpods/"
        async with http.get("/runningpods") as response:
            assert response.status == 200
