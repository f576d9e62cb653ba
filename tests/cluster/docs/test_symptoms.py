"""docs/troubleshooting.md speaks in the words that kubectl prints: each is provoked here."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.peering import RIGHTS, Vkubelet, grant_rights
from tests.cluster.product.cloud import build_pod, create, wait_pod
from tests.cluster.waiting import wait_until
from tests.docs.symptoms import FROM_ELSEWHERE, read_symptoms

pytestmark = pytest.mark.cluster

THERE = {"vkubelet.io/peering": "storm"}
PODS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "had untolerated taint": ("wind", {"tolerations": []}),
    "NamespaceNotReflected": ("default", {}),
    "MissingRight": ("rain", {"volumes": [{"name": "v", "secret": {"secretName": "none"}}]}),
    "MandatorySecretNotFound": (
        "wind",
        {"volumes": [{"name": "v", "secret": {"secretName": "none"}}]},
    ),
    "MandatoryConfigMapNotFound": (
        "wind",
        {"volumes": [{"name": "v", "configMap": {"name": "none"}}]},
    ),
    "VolumeClaimsNotReflected": (
        "wind",
        {
            "nodeName": "storm",
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}],
        },
    ),
    "HostAccessNotAllowed": ("wind", {"hostPID": True}),
    "RemotePodForbidden": (
        "wind",
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    ),
    "RemotePodNotOurs": ("wind", {}),
    "RemoteNamespaceNotOurs": ("fog", {}),
    "RemoteUnschedulable": ("wind", {"resources": {"requests": {"cpu": "5"}}}),
    "NodeAffinity": (
        "wind",
        {"nodeName": "storm", "nodeSelector": {"kubernetes.io/hostname": "other"}},
    ),
}
"""Words that `kubectl describe pod` prints, and a pod of which it does; its name is the words'."""

PROVOKED = {
    *PODS,
    "NoEligibleNodes",
    "connect: connection refused",
    "x509: certificate signed by unknown authority",
}


def _name(words: str) -> str:
    return words.lower().replace(" ", "-")


def test_all_symptoms_are_known() -> None:
    symptoms = read_symptoms()
    assert set(symptoms) == PROVOKED | FROM_ELSEWHERE.keys()
    assert len(symptoms) == len(set(symptoms))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def storm(fresh_clusters: tuple[Cluster, Cluster]) -> AsyncIterator[Vkubelet]:
    """A peering that isn't trusted by its API server, with rights in one of its namespaces."""
    home, remote = fresh_clusters
    await grant_rights(home, remote)
    for name in ("wind", "rain", "fog"):
        await home.kubectl("create", "namespace", name)
    await home.kubectl("apply", "--namespace=wind", "-f", str(RIGHTS / "home-namespace.yaml"))
    for name in ("wind", "rain", "fog", "default"):
        await home.kubectl("wait", "--for=create", "serviceaccount/default", f"-n={name}")
    namespaces = [f"--namespace={name}" for name in ("wind", "rain", "fog")]
    flags = [*namespaces, "--certificates=self-signed", "--home-cluster=here"]
    process = Vkubelet(home, remote, remote_cluster="storm", arguments=flags)
    process.arguments.remove("--approve-csr")
    try:
        process.start()
        await process.wait_ready()
        yield process
    finally:
        await process.stop()


async def _wait_said(cluster: Cluster, words: str, *command: str) -> None:
    said = ""

    async def is_said() -> bool:
        nonlocal said
        done = await cluster.kubectl(*command, check=False)
        said = done.stdout + done.stderr
        return words in said

    try:
        await wait_until(is_said, words, timeout_seconds=40)
    finally:
        print(f"$ kubectl {' '.join(command)}\n{said}")


async def test_pods(fresh_clusters: tuple[Cluster, Cluster], storm: Vkubelet) -> None:
    home, remote = fresh_clusters
    await remote.kubectl("create", "namespace", "fog-here")
    await create(home, build_pod("runs", "wind", nodeSelector=THERE))
    await wait_pod(home, "runs", "wind", "a pod", phase="Running")
    taken = build_pod(_name("RemotePodNotOurs"), "wind-here", nodeSelector={}, tolerations=[])
    await create(remote, taken)
    for words, (namespace, spec) in PODS.items():
        container = {"name": "main", "image": "any", "resources": spec.get("resources", {})}
        more = {key: value for key, value in spec.items() if key != "resources"}
        body = build_pod(
            _name(words), namespace, **{"nodeSelector": THERE, "containers": [container], **more}
        )
        await create(home, body)
    for words, (namespace, _) in PODS.items():
        await _wait_said(home, words, "describe", "pod", _name(words), f"--namespace={namespace}")
    others = [name for words, (name, _) in PODS.items() if name == "default"]
    await home.kubectl("delete", "pods", "--all", f"--namespace={others[0]}", "--wait=false")


async def test_logs(fresh_clusters: tuple[Cluster, Cluster], storm: Vkubelet) -> None:
    home, _ = fresh_clusters
    command = ("logs", "runs", "--namespace=wind")
    await _wait_said(home, "x509: certificate signed by unknown authority", *command)
    await storm.stop()
    try:
        await _wait_said(home, "connect: connection refused", *command)
    finally:
        storm.start()
        await storm.wait_ready()


async def test_nodes(fresh_clusters: tuple[Cluster, Cluster], storm: Vkubelet) -> None:
    home, remote = fresh_clusters
    async with _cordoned(remote, "ssd-1", "ssd-2", "hdd-1"):
        await _wait_said(home, "NoEligibleNodes", "describe", "node", "storm")


@contextlib.asynccontextmanager
async def _cordoned(cluster: Cluster, *nodes: str) -> AsyncIterator[None]:
    await cluster.kubectl("cordon", *nodes)
    try:
        yield
    finally:
        await cluster.kubectl("uncordon", *nodes)


def test_what_comes_from_elsewhere_is_somewhere() -> None:
    for words, where in FROM_ELSEWHERE.items():
        folder = Path(__file__).parents[3] / where.partition(" ")[0]
        if where.startswith("tests/"):
            texts = (file.read_text() for file in folder.rglob("*.py"))
            assert any(words in text for text in texts), words
