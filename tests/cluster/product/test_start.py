"""Starts that can't go well: one clear line, and nothing half-registered."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.peering import USER, PhysicalNodes, Vkubelet, build_environment
from tests.cluster.product.cloud import get
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster


async def _run(process: Vkubelet, *arguments: str) -> tuple[int, str]:
    """Run a process that is to end by itself; its exit code and what it says."""
    command = [*process.command, *arguments]
    started = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=build_environment(),
    )
    try:
        async with asyncio.timeout(30):
            output, _ = await started.communicate()
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()
    assert started.returncode is not None
    return started.returncode, output.decode()


def _build(home: Cluster, remote: Cluster, *arguments: str, name: str = "bad") -> Vkubelet:
    return Vkubelet(home, remote, remote_cluster=name, arguments=["--namespace=*", *arguments])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kubeconfig=/no/such/file"], "/no/such/file"),
        (["--remote-kubeconfig=/no/such/file"], "/no/such/file"),
        (["--context=nowhere"], "nowhere"),
        (["--remote-context=nowhere"], "nowhere"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used(
    home: Cluster, remote: Cluster, arguments: Sequence[str], said: str
) -> None:
    code, output = await _run(_build(home, remote), *arguments)
    assert code == 1
    assert said in output.splitlines()[-1]


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}}, "exec"),
        ({"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}, "tokenFile"),
    ],
)
async def test_a_remote_kubeconfig_may_not_reach_out(
    home: Cluster, remote: Cluster, tmp_path: Path, user: dict[str, object], said: str
) -> None:
    config = yaml.safe_load(remote.kubeconfig_for(USER).read_text())
    config["users"][0]["user"] = user
    file = tmp_path / "remote.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    code, output = await _run(_build(home, remote), f"--remote-kubeconfig={file}")
    assert code == 1
    assert said in output.splitlines()[-1]


async def test_remote_credentials_without_rights(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes
) -> None:
    nobody = remote.kubeconfig_for("nobody")
    code, output = await _run(_build(home, remote), f"--remote-kubeconfig={nobody}")
    assert code == 1
    assert "the remote credentials lack these rights" in output
    assert "list nodes" in output
    assert "create pods" in output
    assert await get(home, "node", "bad") == {}


async def test_home_credentials_without_rights(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes
) -> None:
    nobody = home.kubeconfig_for("nobody")
    code, output = await _run(_build(home, remote), f"--kubeconfig={nobody}")
    assert code == 1
    assert "home credentials" in output


async def test_a_remote_cluster_that_nobody_serves_is_tried_again(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes, tmp_path: Path
) -> None:
    config = yaml.safe_load(remote.kubeconfig_for(USER).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    file = tmp_path / "remote.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    process = _build(home, remote, f"--remote-kubeconfig={file}", name="dark")
    try:
        process.start()

        async def not_ready() -> bool:
            return await process.read_ready() == 503

        await wait_until(not_ready, "/readyz says no")
        assert process.component is not None
        await wait_until(lambda: _logged(process, "can't be reached"), "the log says why")
        assert await get(home, "node", "dark") == {}
        assert process.component.exit_code is None
    finally:
        await process.stop()


async def _logged(process: Vkubelet, text: str) -> bool:
    assert process.component is not None
    return text in process.component.read_log(lines=200)


async def test_a_node_of_that_name_that_is_not_ours_is_never_touched(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes
) -> None:
    real = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}}
    await home.kubectl("create", "-f", "-", stdin=yaml.safe_dump(real))
    before = await get(home, "node", "real")
    process = _build(home, remote, "--node-name=real", name="clash")
    try:
        process.start()
        await wait_until(lambda: _logged(process, "real"), "the log names the node")
        after = await get(home, "node", "real")
        assert after["metadata"].get("labels") == before["metadata"].get("labels")
        assert "addresses" not in after.get("status", {})
    finally:
        await process.stop()
        await home.kubectl("delete", "node", "real")


async def test_a_second_process_waits_for_the_first(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet
) -> None:
    second = Vkubelet(
        home,
        remote,
        remote_cluster="cloud",
        arguments=["--namespace=*"],
        process_name="vkubelet-second",
    )
    try:
        second.start()
        await wait_until(
            lambda: _logged(second, "holds the lock of this peering"), "it says who holds the lock"
        )
        assert await second.read_ready() == 503
        assert await vkubelet.read_ready() == 200
    finally:
        await second.stop()


async def test_a_health_port_in_use(home: Cluster, remote: Cluster, vkubelet: Vkubelet) -> None:
    address = vkubelet.health_url.removeprefix("http://")
    code, output = await _run(_build(home, remote), f"--health-address={address}")
    assert code == 1
    assert f"--health-address {address}" in output.splitlines()[-1]
