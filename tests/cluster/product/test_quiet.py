"""A run in which nothing goes wrong, and nothing is warned of."""

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.lifecycle.workloads import build_job, list_pods, wait_job, wait_rolled_out
from tests.cluster.namespaces.peerings import build_for, config_map
from tests.cluster.peering import RIGHTS, run_vkubelet
from tests.cluster.product.cloud import create, get_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("physical_nodes")]

NODE = "quiet"


async def test_no_warnings(home: Cluster, remote: Cluster, namespace: str) -> None:
    await home.kubectl("apply", f"-n={namespace}", "-f", str(RIGHTS / "home-namespace.yaml"))
    async with run_vkubelet(
        home, remote, remote_cluster=NODE, arguments=["--namespace=*"]
    ) as process:
        await create(home, config_map("settings", namespace, a="b"))
        volumes = [{"name": "v", "configMap": {"name": "settings"}}]
        template = build_for(NODE, "web", namespace, volumes=volumes)
        await create(
            home,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": namespace},
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": template["spec"],
                    },
                },
            },
        )
        job = build_job("once", namespace, "echo done")
        job["spec"]["template"]["spec"]["nodeSelector"] = {"vkubelet.io/peering": NODE}
        await create(home, job)
        await wait_rolled_out(home, "deployment/web", namespace)
        await wait_job(home, "once", namespace, "complete")
        assert (await home.kubectl("logs", "deploy/web", f"-n={namespace}")).stdout == "started\n"
        said = await home.kubectl("exec", "deploy/web", f"-n={namespace}", "--", "echo", "hello")
        assert said.stdout == "hello\n"
        await home.kubectl("set", "env", "deployment/web", "A=b", f"-n={namespace}")
        await wait_rolled_out(home, "deployment/web", namespace)
        await create(home, build_for(NODE, "single", namespace))
        await home.kubectl("delete", "pod", "single", f"-n={namespace}", "--wait=false")
        await home.kubectl("delete", "deploy/web", "job/once", f"-n={namespace}")

        async def all_gone() -> bool:
            return not await list_pods(home, namespace, "app=web") and not await get_pod(
                home, "single", namespace
            )

        await wait_until(all_gone, "pods are gone", timeout_seconds=30)
        await process.stop()
        assert process.component is not None
        log = process.component.read_log(lines=1000).splitlines()
        assert any(" INFO " in line for line in log)
        assert [line for line in log if " INFO " not in line] == []
    await home.kubectl("delete", "node", NODE, "--wait=false")
