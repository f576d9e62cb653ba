"""ConfigMaps and Secrets on process nodes."""

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.process_nodes.dependents import bring_dependents
from tests.fakes.api_server import FakeApiServer
from vkubelet.errors import RetryError


def build_pod(container: dict[str, Any], *volumes: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": [{"name": "c", **container}], "volumes": [*volumes]},
    }


async def bring(pod: dict[str, Any], folder: Path) -> dict[str, Any]:
    async with FakeApiServer() as fake, fake.client("home") as client:
        metadata = {"name": "x", "namespace": "ns"}
        fake.put(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"a": "$(B)"},
                "binaryData": {"bin": "AP8="},
            }
        )
        fake.put(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"s": "c2Vj"}}
        )
        return await bring_dependents(pod, client, folder)


async def test_environment(tmp_path: Path) -> None:
    env = [
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "x", "key": "s"}}},
        {"name": "N", "valueFrom": {"secretKeyRef": {"name": "x", "key": "n", "optional": True}}},
        {"name": "PLAIN", "value": "1"},
    ]
    sources = [{"secretRef": {"name": "x"}, "prefix": "P_"}, {"configMapRef": {"name": "x"}}]
    pod = await bring(build_pod({"env": env, "envFrom": sources[:1]}), tmp_path)
    assert pod["spec"]["containers"][0]["env"] == [
        {"name": "P_s", "value": "sec"},
        {"name": "S", "value": "sec"},
        {"name": "PLAIN", "value": "1"},
    ]
    pod = await bring(build_pod({"envFrom": sources[1:]}), tmp_path)
    assert pod["spec"]["containers"][0]["env"][0] == {"name": "a", "value": "$$(B)"}


async def test_files(tmp_path: Path) -> None:
    projected = {"sources": [{"secret": {"name": "x", "items": [{"key": "s", "path": "deep/er"}]}}]}
    mounts = [{"name": "v", "mountPath": "/etc/v"}, {"name": "w", "mountPath": "/w"}]
    pod = await bring(
        build_pod(
            {"volumeMounts": mounts},
            {"name": "v", "configMap": {"name": "x"}},
            {"name": "w", "projected": projected},
            {"name": "other", "emptyDir": {}},
        ),
        tmp_path,
    )
    root = Path(pod["spec"]["containers"][0]["env"][0]["value"])
    assert (root / "etc/v/bin").read_bytes() == b"\0\xff"
    assert (root / "w/deep/er").read_text() == "sec"
    assert pod["spec"]["volumes"] == [{"name": "other", "emptyDir": {}}]


@pytest.mark.parametrize(
    "container",
    [
        {"envFrom": [{"secretRef": {"name": "none"}}]},
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "no"}}}]},
    ],
)
async def test_what_is_missing(container: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RetryError, match=r"not found|couldn't find key"):
        await bring(build_pod(container), tmp_path)
