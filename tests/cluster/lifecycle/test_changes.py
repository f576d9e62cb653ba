"""What changes of a home pod changes of its remote pod."""

from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.lifecycle.workloads import build, remote_pod
from tests.cluster.product.cloud import condition_of, create, get_pod, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]


async def start(home: Cluster, name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    await create(home, build(name, namespace, **spec))
    return await wait_pod(home, name, namespace, f"pod {name}", phase="Running")


async def test_image_labels_and_annotations(home: Cluster, remote: Cluster, namespace: str) -> None:
    pod = await start(home, "changes", namespace)
    await wait_observed(home, "changes", namespace, generation=1)
    there = await remote_pod(remote, pod)
    where = (there["metadata"]["name"], f"-n={there['metadata']['namespace']}")
    await remote.kubectl("label", "pod", *where, "of-the-provider=stays")
    await home.kubectl("set", "image", "pod/changes", "main=other", f"-n={namespace}")
    await home.kubectl("label", "pod", "changes", "tier=new", "app-", f"-n={namespace}")
    await home.kubectl("annotate", "pod", "changes", "note=new", f"-n={namespace}")

    async def changed() -> bool:
        now = await remote_pod(remote, pod)
        metadata = now["metadata"]
        return bool(
            now["spec"]["containers"][0]["image"] == "other"
            and metadata["labels"].get("tier") == "new"
            and metadata["labels"].get("of-the-provider") == "stays"
            and "app" not in metadata["labels"]
            and metadata["annotations"].get("note") == "new"
        )

    await wait_until(changed, "the remote pod is as at home")
    after = await remote_pod(remote, pod)
    assert after["metadata"]["uid"] == there["metadata"]["uid"]
    await wait_observed(home, "changes", namespace, generation=2)


async def wait_observed(home: Cluster, name: str, namespace: str, *, generation: int) -> None:
    """Wait until the home pod's status says by which generation of it it goes."""

    async def observed() -> bool:
        pod = await get_pod(home, name, namespace)
        assert pod["metadata"]["generation"] == generation
        ready = condition_of(pod, "Ready")
        status = pod["status"].get("observedGeneration")
        return bool(status == ready.get("observedGeneration") == generation)

    await wait_until(observed, f"generation {generation} is observed")


async def debug(home: Cluster, name: str, namespace: str, profile: str) -> None:
    options = (f"--profile={profile}", "--image=tools", "-c=dbg", f"-n={namespace}")
    await home.kubectl("debug", name, *options, "--", "true")


async def test_debug_container(home: Cluster, remote: Cluster, namespace: str) -> None:
    pod = await start(home, "debugged", namespace)
    await debug(home, "debugged", namespace, "baseline")

    async def added() -> bool:
        spec = (await remote_pod(remote, pod))["spec"]
        return [item["name"] for item in spec.get("ephemeralContainers", [])] == ["dbg"]

    await wait_until(added, "the remote pod has it, too")


async def test_debug_container_with_host_access_is_told_of(home: Cluster, namespace: str) -> None:
    await start(home, "guarded", namespace)
    await debug(home, "guarded", namespace, "general")  # it may trace other processes

    async def told() -> bool:
        listed = await home.kubectl(
            "get",
            "events",
            f"-n={namespace}",
            "--field-selector=reason=PartlyReflected",
            "-o=json",
        )
        return any("SYS_PTRACE" in event["message"] for event in listed.json()["items"])

    await wait_until(told, "an event says why")
