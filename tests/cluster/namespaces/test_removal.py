"""What becomes of a remote namespace when its home namespace is deleted."""

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.namespaces.peerings import build_for, config_map, find_there, run_peering
from tests.cluster.peering import RIGHTS
from tests.cluster.product.cloud import create, get, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("physical_nodes")]

SPACES = ("leaving-empty", "leaving-something")


async def test_it_goes_unless_it_holds_something_of_others(home: Cluster, remote: Cluster) -> None:
    await remote.kubectl("apply", "-f", str(RIGHTS / "remote-removal.yaml"))
    there: dict[str, str] = {}
    async with run_peering(home, remote, "leaving", "--namespace=*") as process:
        for name in SPACES:
            await home.kubectl("create", "namespace", name)
            await home.kubectl("apply", f"-n={name}", "-f", str(RIGHTS / "home-namespace.yaml"))
            await create(home, config_map("settings", name, a="b"))
            volumes = [{"name": "v", "configMap": {"name": "settings"}}]
            await create(home, build_for("leaving", "web", name, volumes=volumes))
        for name in SPACES:
            pod = await wait_pod(home, "web", name, f"pod of {name}", phase="Running")
            there[name] = (await find_there(remote, pod))["metadata"]["namespace"]
        empty, other = (there[name] for name in SPACES)
        await create(remote, config_map("theirs", other, a="b"))
        await home.kubectl("delete", "namespace", *SPACES, "--wait=false")

        async def gone() -> bool:
            return not await get(remote, "namespace", empty)

        await wait_until(gone, "the remote namespace is gone", timeout_seconds=100)
        assert not (await get(remote, "namespace", other))["metadata"].get("deletionTimestamp")
        listed = await remote.kubectl("get", "pods", f"-n={other}", "-o=name")
        assert listed.stdout == ""
        assert await get(remote, "configmap", "theirs", f"-n={other}")
        assert process.component is not None
        log = process.component.read_log(lines=1000).splitlines()
        assert [line for line in log if " WARNING " in line or " ERROR " in line] == []
    await home.kubectl("delete", "node", "leaving", "--wait=false")
    await remote.kubectl("delete", "namespace", other, "--wait=false")
    await remote.kubectl("delete", "-f", str(RIGHTS / "remote-removal.yaml"))
