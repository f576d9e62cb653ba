"""The charts installed for real: the process is a pod at home, and pods run on real nodes."""

import json
from collections.abc import Mapping

import pytest

from image.contents import Contents
from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import create, find_remote_pods, get, wait_gone, wait_pod
from tests.cluster.product.test_metrics import read_top
from tests.cluster.waiting import wait_until
from tests.e2e.installed.release import Release, build_far_pod

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("metrics_servers", "busy"),
]


async def test_pods_run_node_by_node(
    home: Cluster,
    remote: Cluster,
    release: Release,
    reflected: str,
    far_nodes: Mapping[str, str],
) -> None:
    for virtual, real in far_nodes.items():
        name = f"on-{real}"
        await create(home, build_far_pod(name, reflected, node=virtual))
        pod = await wait_pod(home, name, reflected, name, phase="Running", seconds=60)
        (behind,) = await find_remote_pods(remote, pod)
        assert (pod["spec"]["nodeName"], behind["spec"]["nodeName"]) == (virtual, real)
        log = await home.kubectl("logs", name, f"-n={reflected}")
        assert log.stdout == "started\n"
        said = await home.kubectl(
            *("exec", "-i", name, f"-n={reflected}", "--", "sh", "-c", "cat; hostname; exit 3"),
            stdin="typed\n",
            check=False,
        )
        assert (said.returncode, said.stdout) == (3, f"typed\n{name}\n")
        await home.kubectl("delete", "pod", name, f"-n={reflected}", "--wait=false")
    for real in far_nodes.values():
        await wait_gone(home, f"on-{real}", reflected)


async def test_the_port_is_the_pods(
    home: Cluster, release: Release, far_nodes: Mapping[str, str]
) -> None:
    pod = await release.find_process()
    for name in far_nodes:
        status = (await get(home, "node", name))["status"]
        assert status["addresses"] == [{"type": "InternalIP", "address": pod["status"]["podIP"]}]
        assert 10250 <= status["daemonEndpoints"]["kubeletEndpoint"]["Port"] <= 10259
        answer = await home.kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/healthz")
        assert answer.stdout == "ok"


async def test_the_process_is_confined(contents: Contents, release: Release) -> None:
    version = await release.run_inside("vkubelet", "version")
    assert version.stdout == f"vkubelet {contents.version}\n"
    script = (
        "import os, pathlib\n"
        "print(os.getuid(), os.getgid())\n"
        "for folder in ('/usr', '/etc', '/tmp', '/var/lib/vkubelet'):\n"
        "    try:\n"
        "        pathlib.Path(folder, 'written').write_text('')\n"
        "    except OSError as error:\n"
        "        print(folder, error.strerror)\n"
    )
    told = await release.run_inside("/usr/bin/python3.11", "-I", "-c", script)
    assert told.stdout.splitlines() == [
        "65532 65532",
        *(f"{folder} Read-only file system" for folder in ("/usr", "/etc", "/tmp")),
    ]
    shell = await release.run_inside("sh", check=False)
    assert shell.returncode != 0
    assert "executable file not found" in shell.stderr


async def test_checked_as_the_notes_say(release: Release) -> None:
    done = await release.run_inside(
        "vkubelet", "check", "--config=/etc/vkubelet/config.yaml", "-o=json", check=False
    )
    found = [
        finding for check in json.loads(done.stdout)["checks"] for finding in check["findings"]
    ]
    failures = [finding for finding in found if finding["level"] == "failure"]
    assert (done.returncode, failures) == (0, [])
    assert len(found) > 10


async def test_the_test_of_the_release(release: Release) -> None:
    done = await release.run_test()
    assert "Phase:          Succeeded" in done.stdout
    assert "it's here" in done.stdout


async def test_top(home: Cluster, busy: str, reflected: str, far_nodes: Mapping[str, str]) -> None:
    async def known() -> bool:
        nodes = await read_top(home, "node")
        pods = await read_top(home, "pod", f"-n={reflected}")
        if busy not in pods or not far_nodes.keys() <= nodes.keys():
            return False
        return int(pods[busy][0].removesuffix("m")) >= 5

    await wait_until(known, "kubectl top at home", timeout_seconds=90)
    containers = await read_top(home, "pod", busy, f"-n={reflected}", "--containers")
    assert set(containers) == {busy}
