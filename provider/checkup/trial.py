"""A pod that is run in the remote cluster and whose log is read at home, as a user would."""

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress

from provider.checkup.finding import Finding, failure, ok, skipped
from provider.checkup.surroundings import Surroundings
from provider.labels import HOME_POD_UID, PEERING, PROVIDER_TAINT
from provider.overview.pod_reasons import explain_pod, find_phase
from vkubelet.kube.errors import ForbiddenError, KubeError
from vkubelet.kube.objects import NAMESPACES, PODS, KubeObject, NamespacedName

PREFIX = "vkubelet-check-"
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 1.0
LOG_PATIENCE_SECONDS = 10.0
_USER = 65532
_SHOWN = 60


async def try_pod(around: Surroundings, image: str, command: Sequence[str]) -> list[Finding]:
    """
    Run a pod through a virtual node, read its log, and remove it.

    Args:
        around: Both clusters; the process has to run.
        image: What the remote nodes can pull.
        command: What it runs; empty: what the image says.
    """
    namespace = await _choose_namespace(around)
    if namespace is None:
        return [skipped("no namespace is reflected yet")]
    if not await around.our_nodes():
        return [failure("there is no virtual node yet", "start the process first")]
    loop = asyncio.get_running_loop()
    started = loop.time()
    body = build_pod(namespace, around.config.remote.cluster, image, command)
    created = await around.home.create(PODS, body)
    key = NamespacedName(namespace, created["metadata"]["name"])
    try:
        pod = await _wait_started(around, key)
        seconds = loop.time() - started
        if find_phase(pod) not in ("Running", "Succeeded"):
            return [_explain(pod)]
        log = await _read_log(around, key)
        where = await _find_physical(around, pod)
        said = f"its log says {log[:_SHOWN]!r}" if log else "its log is empty"
        return [ok(f"a pod ran {where} after {seconds:.1f} s; {said}")]
    finally:
        with suppress(KubeError):
            await around.home.delete(PODS, key, uid=created["metadata"]["uid"])


async def _choose_namespace(around: Surroundings) -> str | None:
    config = around.config.namespaces
    named = [name for name in config.names if name != "*"]
    if named:
        return named[0]
    if config.selector is None:
        return "default"
    selected = await around.home.list(NAMESPACES, label_selector=config.selector)
    return next((str(namespace["metadata"]["name"]) for namespace in selected), None)


def build_pod(namespace: str, peering: str, image: str, command: Sequence[str] = ()) -> KubeObject:
    """Build the pod; level restricted lets it in."""
    container: KubeObject = {
        "name": "main",
        "image": image,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    if command:
        container["command"] = list(command)
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {"name": f"{PREFIX}{secrets.token_hex(4)}", "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "nodeSelector": {PEERING: peering},
            "tolerations": [{"key": PROVIDER_TAINT, "operator": "Exists"}],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }


async def _wait_started(around: Surroundings, key: NamespacedName) -> KubeObject:
    """Wait until the pod runs, has ended, or it has taken too long; returns it as it is then."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    while True:
        pod = await around.home.get(PODS, key)
        if find_phase(pod) in ("Running", "Succeeded", "Failed") or loop.time() >= deadline:
            return pod
        await asyncio.sleep(POLL_SECONDS)


def _explain(pod: KubeObject) -> Finding:
    phase = find_phase(pod)
    reason, message = explain_pod(pod)
    where = (pod.get("spec") or {}).get("nodeName")
    place = f"on {where}" if where else "on no node"
    why = f": {reason}: {message}" if reason else ""
    late = "" if phase == "Failed" else f" after {PATIENCE_SECONDS:.0f} s"
    return failure(
        f"the pod is {phase} {place}{late}{why}", "kubectl describe shows events of such pods"
    )


async def _read_log(around: Surroundings, key: NamespacedName) -> str:
    """Read its log at home; it may take a moment until something is there."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LOG_PATIENCE_SECONDS
    path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/log"
    while True:
        text = (await around.home.get_bytes(path)).decode(errors="replace").strip()
        if text or loop.time() >= deadline:
            return text
        await asyncio.sleep(POLL_SECONDS)


async def _find_physical(around: Surroundings, pod: KubeObject) -> str:
    """Say on which physical node it ran."""
    selector = f"{HOME_POD_UID}={pod['metadata']['uid']}"
    node = pod["spec"]["nodeName"]
    try:
        found = await around.remote.list(PODS, label_selector=selector)
    except ForbiddenError:  # only some namespaces may be seen
        found = []
    return f"on {node} ({found[0]['spec'].get('nodeName', '?')})" if found else f"on {node}"
