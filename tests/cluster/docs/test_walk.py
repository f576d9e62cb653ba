"""A reader's way through the documents, command by command, on two clusters of its own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.docs.shell import Shell
from tests.cluster.docs.standin import Standin
from tests.cluster.kubectl import Completed
from tests.cluster.product.cloud import get
from tests.docs.commands import REPOSITORY, Command, read_commands
from tests.docs.handling import WALK, is_run

pytestmark = pytest.mark.cluster


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def standin(fresh_clusters: tuple[Cluster, Cluster]) -> AsyncIterator[Standin]:
    """The home chart's process."""
    runs = Standin(*fresh_clusters)
    yield runs
    await runs.stop()


@pytest.fixture(scope="module")
def shell(
    fresh_clusters: tuple[Cluster, Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Shell:
    """The reader's shell."""
    return Shell(tmp_path_factory.mktemp("reader"), *fresh_clusters)


EXPECTED = {
    "vkubelet check --context home": "1 over 3 physical nodes: cloud",
    "--service-account vkubelet/vkubelet-cloud": "rights are there for service account vkubelet/",
    "vkubelet plan --remote-kubeconfig remote.kubeconfig --remote-cluster cloud": "ssd-1",
    "kubectl --context home get nodes --selector": "cloud Ready",
    "vkubelet status --context home": "cloud",
    "kubectl --context home --namespace demo get pods": "cloud",
    "kubectl --context home auth can-i list secrets": "yes",
    "helm --kube-context home rollback": "Rollback was a success",
    "vkubelet teardown --context home": "of the peering with cloud there are:",
}
"""What some commands say, by a part of them; all others have to succeed."""


def _walk(page: str) -> Iterator[Command]:
    return filter(is_run, read_commands(Path(REPOSITORY, page)))


@pytest.mark.timeout(600)
async def test_walk(shell: Shell, standin: Standin) -> None:
    """One test, as each page begins where the one before it ended."""
    for command in (command for page in WALK for command in _walk(page)):
        done = await shell.run(command.text)
        print(f"$ {command.text}\n{done.stdout}{done.stderr}")
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        _check_output(done)
        await standin.follow()


def _check_output(done: Completed) -> None:
    for part, said in EXPECTED.items():
        if part in done.name:
            assert said in " ".join(done.stdout.split()), done


async def test_nothing_is_left(fresh_clusters: tuple[Cluster, Cluster]) -> None:
    """The last document ends with the removal of it all."""
    home, remote = fresh_clusters
    assert await get(home, "node", "cloud") == {}
    left = await remote.kubectl("get", "clusterroles,validatingadmissionpolicies", "-o", "name")
    assert "vkubelet-remote-cloud" not in left.stdout
    left = await remote.kubectl("get", "namespaces", "-l=vkubelet.io/peering=cloud", "-o", "json")
    assert all("deletionTimestamp" in item["metadata"] for item in left.json()["items"])
