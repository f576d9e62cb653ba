"""Commands, in each way and with each client."""

import asyncio
import hashlib
import json
import os

import pytest

from tests.cluster.binaries import read_version
from tests.cluster.streaming.legs import Client, Shell, Terminal, open_terminal
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster

COUNTS_WEBSOCKETS = tuple(map(int, read_version().split("."))) >= (1, 36)
DATA = os.urandom(1 << 20) * 8
DIGEST = hashlib.sha256(DATA).hexdigest()


async def read_proxied(shell: Shell) -> dict[str, float]:
    """Read how often the API server took which way for WebSockets."""
    metrics = await shell.leg.cluster.kubectl("get", "--raw", "/metrics")
    counts = {"proxied_to_kubelet": 0.0, "translated_at_apiserver": 0.0}
    for line in metrics.stdout.splitlines():
        if line.startswith("apiserver_websocket_streaming_requests_total{"):
            for way in counts:
                if f'"{way}"' in line:
                    counts[way] += float(line.split()[-1])
    return counts


@pytest.mark.skipif(not COUNTS_WEBSOCKETS, reason="API servers before 1.36 don't count them")
async def test_the_api_server_takes_the_way_that_is_meant(shell: Shell) -> None:
    before = await read_proxied(shell)
    assert (await shell.run(Client.WEBSOCKET, "true"))[0] == 0
    after = await read_proxied(shell)
    passed = after["proxied_to_kubelet"] - before["proxied_to_kubelet"]
    translated = after["translated_at_apiserver"] - before["translated_at_apiserver"]
    assert (passed, translated) == ((1, 0) if shell.leg.passes_websockets else (0, 1))


async def test_output_errors_and_exit_codes(shell: Shell, client: Client) -> None:
    for code in (0, 3, 137, 255):
        script = f"echo out; echo err >&2; exit {code}"
        returned, out, err = await shell.run(client, "sh", "-c", script)
        assert (returned, out) == (code, b"out\n")
        assert err.startswith(b"err\n")


async def test_what_cannot_be_run(shell: Shell, client: Client) -> None:
    code, _, err = await shell.run(client, "no-such-program")
    assert code == 127
    assert b"executable file not found" in err


async def test_data_survives_both_ways(shell: Shell, client: Client) -> None:
    code, out, _ = await shell.run(client, "sh", "-c", "cat >data; sha256sum <data", stdin=DATA)
    assert (code, out.split()[0].decode()) == (0, DIGEST)
    code, out, _ = await shell.run(client, "sh", "-c", "cat data; exit 9")
    assert (code, hashlib.sha256(out).hexdigest()) == (9, DIGEST)


async def test_a_command_that_ends_while_stdin_flows(shell: Shell, client: Client) -> None:
    for _ in range(3):
        code, out, err = await shell.run(
            client, "sh", "-c", "head -c 5; echo; exit 4", stdin=b"12345" + DATA[:500_000]
        )
        assert (code, out) == (4, b"12345\n"), err


async def test_a_client_that_is_killed_takes_its_command_along(
    shell: Shell, client: Client
) -> None:
    args = shell.exec_args("sh", "-c", "echo $$; exec sleep 1000")
    async with shell.leg.cluster.kubectl_process(*args, env=client.environment) as process:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            pid = int(await process.stdout.readline())
        os.kill(pid, 0)  # it's there

    async def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    await wait_until(gone, "the end of the command", timeout_seconds=10)


async def wait_for_size(terminal: Terminal, *, rows: int, columns: int) -> None:
    """Wait in the shell: a size travels on a stream of its own, and comes when it comes."""
    wait = f"until [ \"$(stty size)\" = '{rows} {columns}' ]; do sleep 0.1; done"
    terminal.type(f"{wait}; echo $(({rows}*1000+1))\n")
    await terminal.expect(f"{rows}001")


async def test_a_terminal(shell: Shell, client: Client) -> None:
    args = ("exec", "-it", shell.name, f"-n={shell.namespace}", "--", "sh")
    async with open_terminal(shell.leg.cluster, client, *args) as terminal:
        await wait_for_size(terminal, rows=30, columns=100)
        terminal.resize(120, 40)
        await wait_for_size(terminal, rows=40, columns=120)
        terminal.type("exit 6\n")
        assert await terminal.wait() == 6


async def test_run_it_and_remove_it(shell: Shell, client: Client) -> None:
    name = f"once-{client}"
    script = "read line; echo got $line; exit 5"
    overrides = json.dumps({"spec": {"terminationGracePeriodSeconds": 1, **shell.leg.placement}})
    args = ("run", name, f"-n={shell.namespace}", "-it", "--rm", "--restart=Never", "--image=any")
    command = ("--command", "--", "sh", "-c", script)
    cluster = shell.leg.cluster
    async with open_terminal(
        cluster, client, *args, f"--overrides={overrides}", *command
    ) as terminal:
        await terminal.expect("If you don't see a command prompt")
        terminal.type("hello\n")
        await terminal.expect("got hello")
        assert await terminal.wait() == 5
    listed = await cluster.kubectl("get", "pod", name, f"-n={shell.namespace}", check=False)
    assert listed.returncode == 1
