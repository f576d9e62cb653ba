"""Logs and exec through both API servers, and who may use the kubelet's port."""

import asyncio
import base64
import ssl
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import NODE, get, run_pod
from tests.cluster.waiting import wait_until
from vkubelet.kube.objects import PODS

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]


async def test_logs(home: Cluster, namespace: str) -> None:
    await run_pod(
        home, "talker", namespace, command=["sh", "-c", "echo one; echo two >&2; exec sleep 3600"]
    )
    logs = await home.kubectl("logs", "talker", f"-n={namespace}")
    assert sorted(logs.stdout.split()) == ["one", "two"]
    tail = await home.kubectl("logs", "talker", f"-n={namespace}", "--tail=1", "--timestamps")
    assert len(tail.stdout.splitlines()) == 1
    assert "T" in tail.stdout.split()[0]


async def test_logs_follow_until_the_end(home: Cluster, namespace: str) -> None:
    script = "for i in 1 2 3 4 5; do echo line $i; sleep 0.3; done"
    await run_pod(home, "counter", namespace, command=["sh", "-c", script], restartPolicy="Never")
    logs = await home.kubectl("logs", "-f", "counter", f"-n={namespace}")
    assert logs.stdout.splitlines() == [f"line {number}" for number in range(1, 6)]


async def test_logs_by_websocket(home: Cluster, namespace: str) -> None:
    """As dashboards read them."""
    script = "for i in 1 2 3; do echo line $i; sleep 0.3; done"
    await run_pod(home, "counter", namespace, command=["sh", "-c", script], restartPolicy="Never")
    path = PODS.path(namespace, "counter", "log")
    async with (
        home.client() as client,
        client.connect_websocket(
            path, [("follow", "true")], protocols=["binary.k8s.io"]
        ) as websocket,
        asyncio.timeout(30),
    ):
        messages = [message async for message in websocket]
    assert {message.type for message in messages} == {aiohttp.WSMsgType.BINARY}
    assert b"".join(message.data for message in messages) == b"line 1\nline 2\nline 3\n"


async def test_logs_of_what_is_not_there(home: Cluster, namespace: str) -> None:
    await run_pod(home, "single", namespace)
    failed = await home.kubectl("logs", "single", "-p", f"-n={namespace}", check=False)
    assert failed.returncode == 1
    assert 'previous terminated container "main" in pod "single" not found' in failed.stderr


@pytest.mark.parametrize("client", ["websocket", "spdy"])
async def test_exec_gives_the_exact_exit_code(home: Cluster, namespace: str, client: str) -> None:
    env = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true" if client == "websocket" else "false"}
    await run_pod(home, "codes", namespace)
    for code in (0, 1, 7, 126, 127, 137, 255):
        ended = await home.kubectl(
            "exec",
            "codes",
            f"-n={namespace}",
            "--",
            "sh",
            "-c",
            f"exit {code}",
            check=False,
            env=env,
        )
        assert ended.returncode == code, ended.stderr


@pytest.mark.parametrize("client", ["websocket", "spdy"])
async def test_exec_passes_input_and_both_outputs(
    home: Cluster, namespace: str, client: str
) -> None:
    env = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true" if client == "websocket" else "false"}
    await run_pod(home, "pipes", namespace)
    text = "".join(f"{number}\n" for number in range(20_000))
    ended = await home.kubectl(
        "exec", "-i", "pipes", f"-n={namespace}", "--", "sh", "-c", "cat; echo done >&2",
        stdin=text, env=env,
    )  # fmt: skip
    assert ended.stdout == text
    assert ended.stderr.strip() == "done"


async def test_exec_of_a_command_that_is_not_there(home: Cluster, namespace: str) -> None:
    await run_pod(home, "poor", namespace)
    ended = await home.kubectl("exec", "poor", f"-n={namespace}", "--", "no-such", check=False)
    assert ended.returncode != 0
    assert ended.stderr.strip()


async def test_a_client_that_goes_away_ends_the_command(home: Cluster, namespace: str) -> None:
    await run_pod(home, "left", namespace)
    async with home.kubectl_process(
        "exec", "left", f"-n={namespace}", "--", "sh", "-c", "echo $$; exec sleep 987"
    ) as process:
        assert process.stdout is not None
        pid = int(await process.stdout.readline())
        assert _runs(pid)

    async def ended() -> bool:
        return not _runs(pid)

    await wait_until(ended, "the command has ended", timeout_seconds=20)


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def _ask_kubelet(
    home: Cluster, kubeconfig: Path | None, path: str, *, token: str = ""
) -> tuple[int, str]:
    """Ask the kubelet's port itself, with the client certificate of a kubeconfig, or a token."""
    node = await get(home, "node", NODE)
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    context = ssl.create_default_context(cafile=str(home.folder / "serving-ca.crt"))
    if kubeconfig is not None:
        context.load_cert_chain(_certificate_of(kubeconfig))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"https://127.0.0.1:{port}{path}", ssl=context) as response,
    ):
        return response.status, await response.text()


def _certificate_of(kubeconfig: Path) -> Path:
    """Write the client certificate and key of a kubeconfig into one file."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    pair = kubeconfig.with_suffix(".pem")
    keys = ("client-certificate-data", "client-key-data")
    pair.write_bytes(b"".join(base64.b64decode(user[key]) for key in keys))
    return pair


async def test_nobody_comes_in_without_a_right(home: Cluster, namespace: str) -> None:
    await run_pod(home, "guarded", namespace)
    path = f"/containerLogs/{namespace}/guarded/main"
    assert (await _ask_kubelet(home, None, path))[0] == 401
    other_node = home.kubeconfig_for("system:node:other", ["system:nodes"])
    code, text = await _ask_kubelet(home, other_node, path)
    assert (code, text.startswith("Forbidden (user=system:node:other, verb=get")) == (403, True)
    someone = home.kubeconfig_for("someone")
    assert (await _ask_kubelet(home, someone, path))[0] == 403
    admin = home.kubeconfig_for("root", ["system:masters"])
    assert await _ask_kubelet(home, admin, path) == (200, "started\n")


async def test_tokens_for_another_audience_are_no_good(home: Cluster, namespace: str) -> None:
    await home.kubectl("create", "serviceaccount", "scraper", f"-n={namespace}")
    create = ("create", "token", "scraper", f"-n={namespace}")
    token = (await home.kubectl(*create)).stdout.strip()
    code, text = await _ask_kubelet(home, None, "/metrics", token=token)
    user = f"system:serviceaccount:{namespace}:scraper"
    assert (code, text.startswith(f"Forbidden (user={user}, verb=get")) == (403, True)
    other = (await home.kubectl(*create, "--audience=vault")).stdout.strip()
    assert await _ask_kubelet(home, None, "/metrics", token=other) == (401, "Unauthorized")


async def test_a_pod_of_another_node_is_not_served(home: Cluster) -> None:
    admin = home.kubeconfig_for("root", ["system:masters"])
    code, text = await _ask_kubelet(home, admin, "/containerLogs/kube-system/stranger/main")
    assert (code, text.strip()) == (404, 'pod "stranger" does not exist')
