"""Workloads whose truth only a real kubelet knows: probes, sidecars, resizes, debug containers."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.peering import Vkubelet, run_vkubelet
from tests.cluster.product.cloud import build_pod, condition_of, create, get_pod, wait_pod
from tests.cluster.waiting import wait_until
from tests.e2e.pods import build_container, shell
from tests.e2e.real_node import BUSYBOX_IMAGE, RealNode

NODE = "workloads"
IDLE = ["sleep", "3600"]

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("vkubelet")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def vkubelet(
    clusters: tuple[Cluster, Cluster], real_nodes: Mapping[str, RealNode]
) -> AsyncIterator[Vkubelet]:
    """The product before one real node, whose pods can be reached from home."""
    node = real_nodes["passed"]
    arguments = [
        "--namespace=*",
        f"--node-selector=kubernetes.io/hostname={node.name}",
        f"--kubelet-address={node.slot.host_address}",
        "--pod-network=routed",
    ]
    async with run_vkubelet(*clusters, remote_cluster=NODE, arguments=arguments) as process:
        yield process
    await clusters[0].kubectl("delete", "node", NODE, "--wait=false")


def build(name: str, namespace: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Build a pod for the virtual node."""
    selector = {"vkubelet.io/peering": NODE}
    return build_pod(name, namespace, nodeSelector=selector, containers=list(containers), **spec)


def status_of(pod: Mapping[str, Any], container: str) -> dict[str, Any]:
    """Return the status of a container of any kind; empty if there is none."""
    status = pod.get("status", {})
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    found = (item for kind in kinds for item in status.get(kind, ()) if item["name"] == container)
    return next((dict(item) for item in found), {})


async def wait_shown(home: Cluster, name: str, namespace: str, *words: str) -> None:
    """Wait until `kubectl get pod` shows these words in its line."""
    lines: list[str] = []

    async def shown() -> bool:
        got = await home.kubectl("get", "pod", name, f"-n={namespace}", "--no-headers")
        lines[:] = [re.sub(r"\s+", " ", got.stdout)]
        return all(word in lines[0] for word in words)

    try:
        await wait_until(shown, f"{name} is shown as {words}", timeout_seconds=60)
    except Exception as error:
        error.add_note(f"shown: {lines}")
        raise


async def test_a_job_ends_beside_its_sidecar(home: Cluster, namespace: str) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    sidecar = shell(
        "proxy",
        "sleep 2; touch /shared/up; trap 'exit 0' TERM; while :; do sleep 0.2; done",
        restartPolicy="Always",
        volumeMounts=mounts,
        startupProbe={
            "exec": {"command": ["test", "-e", "/shared/up"]},
            "periodSeconds": 1,
            "failureThreshold": 30,
        },
    )
    work = "test -e /shared/up || exit 9; until [ -e /shared/go ]; do sleep 0.2; done"
    template = build(
        "any",
        namespace,
        shell("main", work, volumeMounts=mounts),
        initContainers=[sidecar],
        restartPolicy="Never",
        volumes=[{"name": "shared", "emptyDir": {}}],
    )
    await create(
        home,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "served", "namespace": namespace},
            "spec": {
                "backoffLimit": 0,
                "template": {"metadata": {}, "spec": template["spec"]},
            },
        },
    )
    pods: list[dict[str, Any]] = []

    async def both_run() -> bool:
        selector = "--selector=job-name=served"
        listed = await home.kubectl("get", "pods", f"-n={namespace}", selector, "-o=json")
        pods[:] = listed.json()["items"]
        return bool(pods) and all(
            status_of(pods[0], name).get("ready") for name in ("main", "proxy")
        )

    await wait_until(both_run, "main runs beside its sidecar", timeout_seconds=60)
    (pod,) = pods
    assert status_of(pod, "proxy")["started"] is True
    assert condition_of(pod, "Initialized")["status"] == "True"
    name = pod["metadata"]["name"]
    logged = await home.kubectl("exec", name, f"-n={namespace}", "-c=proxy", "--", "ls", "/shared")
    assert logged.stdout == "up\n"
    await home.kubectl("exec", name, f"-n={namespace}", "-c=main", "--", "touch", "/shared/go")
    await home.kubectl(
        "wait",
        "job/served",
        "--for=condition=complete",
        f"-n={namespace}",
        "--timeout=60s",
        timeout=70,
    )
    pod = await wait_pod(home, name, namespace, "the job's pod", phase="Succeeded", seconds=60)
    assert status_of(pod, "main")["state"]["terminated"]["exitCode"] == 0
    assert "terminated" in status_of(pod, "proxy")["state"]


async def test_an_init_container_that_fails_for_good(home: Cluster, namespace: str) -> None:
    failing = shell("prepare", "echo broken; exit 4")
    await create(
        home,
        build(
            "hopeless",
            namespace,
            build_container("main", IDLE),
            initContainers=[failing],
            restartPolicy="Never",
        ),
    )
    pod = await wait_pod(home, "hopeless", namespace, "hopeless", phase="Failed", seconds=60)
    assert status_of(pod, "prepare")["state"]["terminated"]["exitCode"] == 4
    assert status_of(pod, "main")["state"]["waiting"]["reason"] == "PodInitializing"
    assert condition_of(pod, "Initialized")["status"] == "False"
    await wait_shown(home, "hopeless", namespace, "0/1", "Init:Error")
    logs = await home.kubectl("logs", "hopeless", "-c=prepare", f"-n={namespace}")
    assert logs.stdout == "broken\n"


async def test_an_init_container_that_is_tried_again(home: Cluster, namespace: str) -> None:
    failing = shell(
        "prepare",
        "[ -e /state/tried ] && exit 0; touch /state/tried; exit 5",
        volumeMounts=[{"name": "state", "mountPath": "/state"}],
    )
    await create(
        home,
        build(
            "stubborn",
            namespace,
            build_container("main", IDLE),
            initContainers=[failing],
            volumes=[{"name": "state", "emptyDir": {}}],
        ),
    )
    pod = await wait_pod(home, "stubborn", namespace, "stubborn", phase="Running", seconds=60)
    prepared = status_of(pod, "prepare")
    assert prepared["restartCount"] == 1
    assert prepared["state"]["terminated"]["exitCode"] == 0
    assert prepared["lastState"]["terminated"]["exitCode"] == 5


async def test_a_container_that_is_not_alive_is_restarted(home: Cluster, namespace: str) -> None:
    main = shell(
        "main",
        "touch /tmp/alive; trap 'exit 7' TERM; while :; do sleep 0.2; done",
        livenessProbe={
            "exec": {"command": ["test", "-e", "/tmp/alive"]},
            "periodSeconds": 1,
            "failureThreshold": 2,
        },
    )
    await create(home, build("mortal", namespace, main, terminationGracePeriodSeconds=10))
    await wait_pod(home, "mortal", namespace, "mortal", phase="Running", seconds=60)
    await home.kubectl("exec", "mortal", f"-n={namespace}", "--", "rm", "/tmp/alive")
    await wait_shown(home, "mortal", namespace, "1/1 Running 1 (")
    pod = await get_pod(home, "mortal", namespace)
    ended = status_of(pod, "main")["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (7, "Error")
    reasons: set[str] = set()

    async def told() -> bool:
        selector = "--field-selector=involvedObject.name=mortal"
        listed = await home.kubectl("get", "events", f"-n={namespace}", selector, "-o=json")
        reasons.update(event["reason"] for event in listed.json()["items"])
        return {"Unhealthy", "Killing"} <= reasons

    await wait_until(told, "home's events say why", timeout_seconds=30)


async def test_readiness_drives_endpoint_slices(
    home: Cluster, namespace: str, real_nodes: Mapping[str, RealNode]
) -> None:
    main = shell(
        "main",
        "exec sleep 3600",
        ports=[{"containerPort": 80}],
        readinessProbe={"exec": {"command": ["test", "-e", "/tmp/go"]}, "periodSeconds": 1},
    )
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    await create(home, service, build("web", namespace, main))

    async def read_endpoints() -> list[tuple[str, bool]]:
        selector = "--selector=kubernetes.io/service-name=web"
        listed = await home.kubectl("get", "endpointslices", f"-n={namespace}", selector, "-o=json")
        return [
            (address, bool(endpoint["conditions"].get("ready")))
            for item in listed.json()["items"]
            for endpoint in item["endpoints"] or ()
            for address in endpoint["addresses"]
        ]

    async def wait_endpoint(*, ready: bool) -> str:
        found: list[tuple[str, bool]] = []

        async def is_so() -> bool:
            found[:] = await read_endpoints()
            return [value for _, value in found] == [ready]

        await wait_until(is_so, f"an endpoint that is ready: {ready}", timeout_seconds=60)
        return found[0][0]

    address = await wait_endpoint(ready=False)
    assert address.startswith(real_nodes["passed"].slot.pod_range.rpartition(".")[0])
    assert condition_of(await get_pod(home, "web", namespace), "Ready")["status"] == "False"
    await home.kubectl("exec", "web", f"-n={namespace}", "--", "touch", "/tmp/go")
    assert await wait_endpoint(ready=True) == address
    await home.kubectl("exec", "web", f"-n={namespace}", "--", "rm", "/tmp/go")
    assert await wait_endpoint(ready=False) == address


async def debug(home: Cluster, pod: str, namespace: str, script: str, *options: str) -> None:
    """Put a debug container beside `main` that sees its processes."""
    await home.kubectl(
        *("debug", pod, f"-n={namespace}", f"--image={BUSYBOX_IMAGE}", "--target=main"),
        *("--profile=baseline", *options, "--", "sh", "-c", script),
    )


async def test_a_debug_container_sees_its_target(home: Cluster, namespace: str) -> None:
    await create(home, build("patient", namespace, build_container("main", ["sleep", "4242"])))
    await wait_pod(home, "patient", namespace, "patient", phase="Running", seconds=60)
    script = "tr '\\0' ' ' </proc/1/cmdline; echo; exit 3"
    await debug(home, "patient", namespace, script, "-c=looks")
    pod: dict[str, Any] = {}

    async def ended() -> bool:
        pod.update(await get_pod(home, "patient", namespace))
        return "terminated" in status_of(pod, "looks").get("state", {})

    await wait_until(ended, "home knows how it ended", timeout_seconds=60)
    assert status_of(pod, "looks")["state"]["terminated"]["exitCode"] == 3
    logs = await home.kubectl("logs", "patient", "-c=looks", f"-n={namespace}")
    assert logs.stdout == "sleep 4242 \n"
    assert pod["status"]["phase"] == "Running"


async def test_a_debug_container_is_attached_to(home: Cluster, namespace: str) -> None:
    await create(home, build("talking", namespace, build_container("main", IDLE)))
    await wait_pod(home, "talking", namespace, "talking", phase="Running", seconds=60)
    script = "read line; echo got $line; exit 0"
    await debug(home, "talking", namespace, script, "-c=talks", "-i", "--attach=false")

    async def runs() -> bool:
        pod = await get_pod(home, "talking", namespace)
        return "running" in status_of(pod, "talks").get("state", {})

    await wait_until(runs, "it runs", timeout_seconds=60)
    # Its stdin stays open: kubelets let go of a client whose input ends, whatever is still to come.
    async with (
        home.kubectl_process("attach", "talking", "-c=talks", "-i", f"-n={namespace}") as attached,
        asyncio.timeout(60),
    ):
        assert attached.stdin is not None
        assert attached.stdout is not None
        attached.stdin.write(b"hello\n")
        told = await attached.stdout.read()
    assert told.endswith(b"got hello\n")


async def resize(home: Cluster, name: str, namespace: str, cpu: str, memory: str) -> None:
    """Ask for other requests of `main`."""
    amounts = f'{{"requests":{{"cpu":"{cpu}","memory":"{memory}"}}}}'
    patch = f'{{"spec":{{"containers":[{{"name":"main","resources":{amounts}}}]}}}}'
    where = ("pod", name, f"-n={namespace}", "--subresource=resize", f"--patch={patch}")
    await home.kubectl("patch", *where)


async def test_a_pod_is_resized_up_and_down(home: Cluster, namespace: str) -> None:
    amounts = {"requests": {"cpu": "50m", "memory": "16Mi"}}
    await create(
        home, build("elastic", namespace, build_container("main", IDLE, resources=amounts))
    )
    await wait_pod(home, "elastic", namespace, "elastic", phase="Running", seconds=60)
    for cpu, memory in (("150m", "32Mi"), ("20m", "8Mi")):
        await resize(home, "elastic", namespace, cpu, memory)

        async def resized(cpu: str = cpu, memory: str = memory) -> bool:
            pod = await get_pod(home, "elastic", namespace)
            if pod["status"].get("observedGeneration") != pod["metadata"]["generation"]:
                return False
            if condition_of(pod, "PodResizePending") or condition_of(pod, "PodResizeInProgress"):
                return False
            main = status_of(pod, "main")
            # What is observed and not under way has been done.
            assert main["resources"]["requests"] == {"cpu": cpu, "memory": memory}
            return bool(main["allocatedResources"] == {"cpu": cpu, "memory": memory})

        await wait_until(resized, f"{cpu} and {memory}", timeout_seconds=60)
    assert status_of(await get_pod(home, "elastic", namespace), "main")["restartCount"] == 0


async def test_a_resize_waits_for_room(home: Cluster, namespace: str) -> None:
    """Home's own API server refuses what the node could never hold; the rest its kubelet judges."""
    small, big = ({"requests": {"cpu": cpu, "memory": "16Mi"}} for cpu in ("50m", "1200m"))
    await create(
        home,
        build("greedy", namespace, build_container("main", IDLE, resources=small)),
        build("filler", namespace, build_container("main", IDLE, resources=big)),
    )
    for name in ("greedy", "filler"):
        await wait_pod(home, name, namespace, name, phase="Running", seconds=60)
    await resize(home, "greedy", namespace, "1200m", "16Mi")

    async def deferred() -> bool:
        pending = condition_of(await get_pod(home, "greedy", namespace), "PodResizePending")
        return bool(pending.get("reason") == "Deferred")

    await wait_until(deferred, "home says that it's deferred", timeout_seconds=60)
    pod = await get_pod(home, "greedy", namespace)
    assert status_of(pod, "main")["resources"]["requests"]["cpu"] == "50m"
    await home.kubectl("delete", "pod", "filler", f"-n={namespace}", "--wait=false")

    async def done() -> bool:
        pod = await get_pod(home, "greedy", namespace)
        requests = status_of(pod, "main")["resources"]["requests"]
        return bool(requests["cpu"] == "1200m") and not condition_of(pod, "PodResizePending")

    await wait_until(done, "there is room, and it's resized", timeout_seconds=90)
    assert status_of(await get_pod(home, "greedy", namespace), "main")["restartCount"] == 0
