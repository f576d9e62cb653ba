import asyncio
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.cluster import binaries
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.waiting import wait_until

POD = """
apiVersion: v1
kind: Pod
metadata: {name: sleeper}
spec:
  containers: [{name: main, image: none}]
"""


async def test_both_clusters_are_of_the_version_asked_for(home: Cluster, remote: Cluster) -> None:
    for cluster in (home, remote):
        versions = (await cluster.kubectl("version", "-o", "json")).json()
        wanted = f"v{binaries.read_version()}"
        assert versions["serverVersion"]["gitVersion"] == wanted
        assert versions["clientVersion"]["gitVersion"] == wanted
    assert home.server != remote.server


async def test_pod_can_be_created_and_is_looked_at_by_the_scheduler(
    home: Cluster, namespace: str
) -> None:
    await home.kubectl("create", "-f", "-", "-n", namespace, stdin=POD)

    async def unschedulable() -> bool:
        pod = (await home.kubectl("get", "pod", "sleeper", "-n", namespace, "-o", "json")).json()
        return any(
            condition["type"] == "PodScheduled" and condition["reason"] == "Unschedulable"
            for condition in pod["status"].get("conditions", ())
        )

    await wait_until(unschedulable, "PodScheduled is False")


async def test_rights_come_from_rbac(home: Cluster, namespace: str) -> None:
    kubeconfig = home.kubeconfig_for("alice", ["developers"])
    refused = await home.kubectl("get", "pods", "-n", namespace, kubeconfig=kubeconfig, check=False)
    assert refused.returncode == 1
    assert 'User "alice" cannot list resource "pods"' in refused.stderr

    await home.kubectl(
        "create", "rolebinding", "developers", "-n", namespace,
        "--clusterrole=view", "--group=developers",
    )  # fmt: skip
    await home.kubectl("get", "pods", "-n", namespace, kubeconfig=kubeconfig)


async def test_node_may_not_write_another_node(home: Cluster) -> None:
    kubeconfig = home.kubeconfig_for("system:node:one", ["system:nodes"])
    manifest = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "two"}}'
    refused = await home.kubectl(
        "create", "-f", "-", stdin=manifest, kubeconfig=kubeconfig, check=False
    )
    assert 'node "one" is not allowed to modify node "two"' in refused.stderr


async def test_kubectl_that_takes_too_long_is_killed(home: Cluster) -> None:
    with pytest.raises(
        ClusterError, match=r"^home: kubectl get pods --watch: still runs after 0\.5 s"
    ):
        await home.kubectl("get", "pods", "--watch", timeout=0.5)


async def test_kubectl_failure_shows_its_output(home: Cluster) -> None:
    with pytest.raises(ClusterError, match=r'exit code 1\n.*namespaces "none" not found'):
        await home.kubectl("get", "namespace", "none")


async def _get_status(cluster: Cluster, seconds: float) -> int:
    timeout = aiohttp.ClientTimeout(total=seconds)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"{cluster.server}/livez", ssl=False) as response,
    ):
        return response.status


async def test_api_server_can_hang_and_be_gone_and_come_back(remote: Cluster) -> None:
    remote.freeze_api_server()
    try:
        with pytest.raises(TimeoutError):
            await _get_status(remote, 0.5)
    finally:
        remote.thaw_api_server()
    assert await _get_status(remote, 10) == 200

    for end in (remote.stop_api_server, remote.kill_api_server):
        await end()
        with pytest.raises(aiohttp.ClientConnectorError):
            await _get_status(remote, 10)
        await remote.start_api_server()
    await remote.kubectl("get", "namespace", "default")


def _find_folders(parent: Path) -> list[str]:
    return [str(path) for path in parent.glob("vkubelet-*")]


async def test_program_that_ends_at_once_is_named_with_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: Cluster
) -> None:
    source = Path(home.build_kubectl_command()[0]).parent
    assets = tmp_path / "assets"
    assets.mkdir()
    for program in set(binaries.PROGRAMS) - {"etcd"}:
        (assets / program).symlink_to(source / program)
    broken = assets / "etcd"
    broken.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "etcd Version: 3.6.0" && exit\necho no; exit 3\n'
    )
    broken.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cluster = Cluster("broken")
    with pytest.raises(ClusterError, match="broken: etcd: ended with 3\nno"):
        await cluster.start()
    assert not _find_folders(tmp_path)


START_AND_WAIT = """
import asyncio
from tests.cluster.cluster import Cluster

async def main():
    async with Cluster("orphan") as cluster:
        async with cluster.kubectl_process("get", "pods", "--watch"):
            print(cluster.folder, flush=True)
            await asyncio.sleep(60)

asyncio.run(main())
"""


def _find_processes(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        if text in command:
            found.append(command)
    return found


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_nothing_survives_the_test_process(number: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", START_AND_WAIT,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            folder = (await process.stdout.readline()).decode().strip()
        assert Path(folder).is_absolute()

        async def all_run() -> bool:
            return len(_find_processes(folder)) >= 6  # with kubectl and the janitor

        await wait_until(all_run, "all its processes run", timeout_seconds=20)
    finally:
        process.send_signal(number)
        await process.communicate()

    async def gone() -> bool:
        return not _find_processes(folder) and folder not in _find_folders(Path(folder).parent)

    await wait_until(gone, f"{folder} and its processes are gone", timeout_seconds=20)
