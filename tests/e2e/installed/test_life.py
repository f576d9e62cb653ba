"""A release from its first day to its last, with hooks that are pods, too."""

from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from tests.charts.rendering import merge
from tests.cluster.charts.installation import NAMESPACE
from tests.cluster.cluster import Cluster
from tests.cluster.helm import run_helm
from tests.cluster.product.cloud import create, find_remote_pods, get, get_pod, wait_pod
from tests.cluster.waiting import wait_until
from tests.e2e.installed.release import Release, build_far_pod, build_values
from tests.e2e.real_node import RealNode

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PEERING = "brief"


@pytest_asyncio.fixture(loop_scope="session")
async def brief(
    home: Cluster,
    remote: Cluster,
    home_nodes: Mapping[str, RealNode],
    real_nodes: Mapping[str, RealNode],
    namespace: str,
) -> AsyncIterator[Release]:
    """A release that isn't installed yet."""
    values = build_values(PEERING, namespace)
    release = Release(
        home=home,
        remote=remote,
        peering=PEERING,
        values=merge(values, {"teardownOnUninstall": True}),
        remote_address=next(iter(real_nodes.values())).slot.host_address,
    )
    yield release
    await release.uninstall()


async def _wait_for_secret(release: Release) -> None:
    """Wait until the kubelet has found that the Secret isn't there."""

    async def told() -> bool:
        events = await release.home.kubectl(
            *("get", "events", f"--namespace={NAMESPACE}", "--field-selector=reason=FailedMount"),
            "-o=jsonpath={.items[*].message}",
        )
        return f'secret "{release.peering}" not found' in events.stdout

    await wait_until(told, "the Secret is missed")


async def test_from_install_to_uninstall(
    home: Cluster, remote: Cluster, brief: Release, namespace: str
) -> None:
    await brief.install_remote("teardown=true")
    await brief.install()
    await _wait_for_secret(brief)
    await brief.rotate()
    await brief.wait_rolled_out()
    await create(home, build_far_pod("passing", namespace, peering=PEERING))
    pod = await wait_pod(home, "passing", namespace, "passing", phase="Running", seconds=60)
    (behind,) = await find_remote_pods(remote, pod)
    await run_helm("uninstall", PEERING, f"--namespace={NAMESPACE}", cluster=home)
    assert await get_pod(home, "passing", namespace) == {}
    assert await get(home, "node", pod["spec"]["nodeName"]) == {}
    assert await get(home, "lease", f"vkubelet-{PEERING}", f"-n={NAMESPACE}") == {}

    async def emptied() -> bool:
        return not await get(remote, "namespace", behind["metadata"]["namespace"])

    await wait_until(emptied, "the remote namespace is gone")
