"""The big remote API server as a child process, and a kubeconfig that leads there."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from tests.cluster.peering import build_environment


@contextlib.asynccontextmanager
async def run_remote_api(*, nodes: int, pods: int = 0) -> AsyncIterator[str]:
    """Run it; yields its URL."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.remote_api", f"--nodes={nodes}", f"--pods={pods}"),
        stdout=asyncio.subprocess.PIPE,
        env=build_environment(),
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


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
