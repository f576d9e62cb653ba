"""The example of a node mapping, installed as a user would and found by its entry point."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.api_server import FakeApiServer
from tests.fakes.physical_nodes import raw_node

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "docs" / "examples" / "zone-instance-mapping"
ZONE = "topology.kubernetes.io/zone"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the example was installed into."""
    source = tmp_path_factory.mktemp("source") / "example"
    shutil.copytree(EXAMPLE, source)
    target = tmp_path_factory.mktemp("target")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", f"--target={target}", str(source)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return target


async def plan(remote: FakeApiServer, path: Path | None, *arguments: str) -> tuple[int, str, str]:
    """Run `vkubelet plan` with the installed example on the path."""
    paths = [str(part) for part in (path, REPOSITORY) if part is not None]
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "provider", "plan", "--remote-cluster=cloud", "--node-mapping=zone-instance"),
        f"--remote-kubeconfig={remote.write_kubeconfig()}",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(paths)},
    )
    out, err = await started.communicate()
    assert started.returncode is not None
    return started.returncode, out.decode(), err.decode()


def put_node(remote: FakeApiServer, name: str, zone: str, instance_type: str, **more: Any) -> None:
    labels = {ZONE: zone, INSTANCE_TYPE: instance_type}
    remote.put(raw_node(name, {key: value for key, value in labels.items() if value}, **more))


async def test_a_virtual_node_for_each_pair_with_caps(installed: Path) -> None:
    async with FakeApiServer() as remote:
        for name in ("n1", "n2", "n3"):
            put_node(remote, name, "eu-1a", "m5.large")
        put_node(remote, "n4", "eu-1b", "m5.large")
        put_node(remote, "n5", "eu-1b", "Standard_D4")
        put_node(remote, "n6", "eu-1b", "")
        code, out, err = await plan(remote, installed, "-o", "json")
    assert (code, err) == (0, "")
    report = msgspec.json.decode(out)
    nodes = {node["name"]: node for node in report["virtualNodes"]}
    assert {name: node["physicalNodes"] for name, node in nodes.items()} == {
        "eu-1a-m5.large": ["n1", "n2", "n3"],
        "eu-1b-m5.large": ["n4"],
        "eu-1b-standard-d4": ["n5"],
    }
    assert nodes["eu-1a-m5.large"]["allocatable"]["cpu"] == "8"  # of 12: one node's worth is kept
    assert nodes["eu-1b-m5.large"]["allocatable"]["cpu"] == "0"
    (term,) = nodes["eu-1a-m5.large"]["nodeSelectorTerms"]
    assert {item["key"] for item in term["matchExpressions"]} == {ZONE, INSTANCE_TYPE, "type"}
    assert report["leftOut"] == [{"node": "n6", "reason": f"no label {INSTANCE_TYPE}"}]


async def test_pairs_that_look_alike_have_names_of_their_own(installed: Path) -> None:
    async with FakeApiServer() as remote:
        put_node(remote, "n1", "a", "Large")
        put_node(remote, "n2", "a", "large")
        code, out, _ = await plan(remote, installed, "-o", "json")
    assert code == 0
    names = [node["name"] for node in msgspec.json.decode(out)["virtualNodes"]]
    assert "a-large" in names
    assert len(set(names)) == 2


async def test_it_is_unknown_where_it_is_not_installed() -> None:
    async with FakeApiServer() as remote:
        code, out, err = await plan(remote, None)
        assert remote.requests == []
    assert (code, out) == (2, "")
    assert "--node-mapping: there is no node mapping 'zone-instance'" in err
