"""The big remote API server as a child process, and a kubeconfig that leads there."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from tests.bench.children import run_module


@contextlib.asynccontextmanager
async def run_remote_api(*, nodes: int, pods: int = 0) -> AsyncIterator[str]:
    """Run it; yields its URL."""
    arguments = (f"--nodes={nodes}", f"--pods={pods}")
    async with run_module("tests.bench.remote_api", *arguments) as process:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()


def write_kubeconfig(folder: Path, url: str) -> Path:
    """Write a kubeconfig for a server that asks for no credentials."""
    path = folder / "remote.kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }
    path.write_bytes(msgspec.json.encode(config))
    return path
