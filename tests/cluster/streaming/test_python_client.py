"""The Python client's streams: WebSockets as it speaks them."""

import asyncio
import subprocess
import sys

import pytest

from tests.cluster.peering import build_environment
from tests.cluster.processes import ReservedPort
from tests.cluster.streaming.legs import Shell

pytestmark = pytest.mark.cluster


async def run(shell: Shell, action: str, *args: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Run the Python client; gives its exit code and output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.cluster.streaming.python_client"),
        *(str(shell.leg.cluster.admin_kubeconfig), shell.namespace, action, *args),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=build_environment(),
    )
    try:
        async with asyncio.timeout(40):
            out, err = await process.communicate(stdin)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_command(shell: Shell) -> None:
    script = "read line; echo got $line; echo err >&2; exit 7"
    assert await run(shell, "exec", shell.name, "sh", "-c", script, stdin=b"hello\n") == (
        7,
        "got hello\n",
        "err\n",
    )


async def test_a_port(shell: Shell, server: int) -> None:
    assert await run(shell, "forward", "server", str(server), stdin=b"line\n") == (
        0,
        "echo line\n",
        "",
    )


async def test_a_port_that_nobody_listens_on(shell: Shell, server: int) -> None:
    del server
    reserved = ReservedPort()
    code, out, err = await run(shell, "forward", "server", str(reserved.number), stdin=b"line\n")
    reserved.close()
    assert (code, out) == (1, "")
    assert f"port {reserved.number}" in err
