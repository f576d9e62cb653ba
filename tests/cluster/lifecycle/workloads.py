"""What the life cycle tests share: workloads for their node, and looks at both sides."""

from collections.abc import Mapping
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import build_pod, find_remote_pods
from tests.cluster.waiting import wait_until

NODE = "lifecycle"


def build(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """Build a pod for the node of these tests."""
    return build_pod(name, namespace, **{"nodeSelector": {"vkubelet.io/peering": NODE}, **spec})


def build_template(labels: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    """Build a pod template for the node of these tests."""
    return {"metadata": {"labels": labels}, "spec": build("any", "any", **spec)["spec"]}


def build_workload(
    kind: str, name: str, namespace: str, template: Mapping[str, Any], **spec: Any
) -> dict[str, Any]:
    """Build a workload of the apps group."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": template["metadata"]["labels"]},
            "template": template,
            **spec,
        },
    }


def build_job(name: str, namespace: str, command: str, **spec: Any) -> dict[str, Any]:
    """Build a Job whose pods run a shell command once."""
    template = build_template({"job": name}, command=["sh", "-c", command], restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"backoffLimit": 0, "template": template, **spec},
    }


async def list_pods(cluster: Cluster, namespace: str, selector: str) -> list[dict[str, Any]]:
    """List pods."""
    listed = await cluster.kubectl("get", "pods", f"-n={namespace}", f"-l={selector}", "-o=json")
    return list(listed.json()["items"])


async def remote_pod(remote: Cluster, home_pod: Mapping[str, Any]) -> dict[str, Any]:
    """The one remote pod of a home pod; empty if there is none."""
    found = await find_remote_pods(remote, home_pod)
    assert len(found) < 2
    return found[0] if found else {}


async def wait_rolled_out(home: Cluster, what: str, namespace: str) -> None:
    """Wait until a workload is as it's wanted."""
    await home.kubectl("rollout", "status", what, f"-n={namespace}", "--timeout=60s")


async def wait_job(home: Cluster, name: str, namespace: str, condition: str) -> dict[str, Any]:
    """Wait until a Job has ended, and return its status."""
    await home.kubectl(
        "wait", f"job/{name}", f"--for=condition={condition}", f"-n={namespace}", "--timeout=60s"
    )
    got = await home.kubectl("get", "job", name, f"-n={namespace}", "-o=json")
    return dict(got.json()["status"])


async def wait_replaced(home: Cluster, namespace: str, selector: str, uid: str) -> None:
    """Wait until a controller has made another pod."""

    async def replaced() -> bool:
        pods = await list_pods(home, namespace, selector)
        return any(pod["metadata"]["uid"] != uid for pod in pods)

    await wait_until(replaced, "another pod", timeout_seconds=60)
