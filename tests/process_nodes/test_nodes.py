import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.cluster.process_nodes.nodes import NodesFileError, read_nodes, watch_nodes
from vkubelet.interface import Taint

FILE = """
- name: worker-1
  labels: {disktype: ssd}
  taints: [{key: gpu, effect: NoSchedule}]
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
- name: worker-2
  capacity: {cpu: "4"}
  allocatable: {cpu: "3"}
  ready: false
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.yaml"
    path.write_text(FILE)
    return path


def test_nodes_look_like_physical_ones(path: Path) -> None:
    first, second = read_nodes(path)
    assert first.labels["kubernetes.io/hostname"] == "worker-1"
    assert first.labels["kubernetes.io/os"] == "linux"
    assert "kubernetes.io/arch" in first.labels
    assert first.labels["disktype"] == "ssd"
    assert "type" not in first.labels
    assert first.taints == (Taint(key="gpu", effect="NoSchedule"),)
    assert first.allocatable == first.capacity == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert second.allocatable == {"cpu": "3"}
    assert first.node_info["operatingSystem"] == "linux"
    ready = [node.conditions[0] for node in (first, second)]
    assert [(c.type, c.status, c.reason) for c in ready] == [
        ("Ready", "True", "KubeletReady"),
        ("Ready", "False", "KubeletNotReady"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {name: a, colour: red}", "unknown field `colour`"),
        ("- {capacity: {cpu: '1'}}", "missing required field `name`"),
        ("- {name: a, capacity: {cpu: 1}}", "Expected `str`"),
        ("- name: a\n- name: a", "stands there twice"),
        ("{", "nodes.yaml"),
    ],
)
def test_bad_files_give_one_clear_error(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    with pytest.raises(NodesFileError, match=message):
        read_nodes(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NodesFileError, match=r"absent\.yaml.*No such file"):
        read_nodes(tmp_path / "absent.yaml")


async def test_a_change_is_followed_and_a_bad_one_skipped(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(10), aclosing(watch_nodes(path)) as changes:
        assert [node.name for node in await anext(changes)] == ["worker-1", "worker-2"]
        async with asyncio.TaskGroup() as group:
            following = group.create_task(anext(changes))
            await asyncio.to_thread(path.write_text, "- nonsense")
            while "the nodes stay as they are" not in caplog.text:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(path.write_text, json.dumps([{"name": "worker-3"}]))
        assert [node.name for node in following.result()] == ["worker-3"]
