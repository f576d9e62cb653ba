"""ConfigMaps and Secrets in the remote cluster, as pods there see them."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.dependents.conftest import grant_namespace
from tests.cluster.dependents.pods import build, build_container, wait_log, wait_reason
from tests.cluster.product.cloud import create, get_pod, wait_gone, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]

SELECTOR = "--selector=vkubelet.io/dependent=copy"


def config_map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def secret(name: str, namespace: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


async def list_copies(remote: Cluster, kind: str, namespace: str) -> Mapping[str, dict[str, Any]]:
    """List the copies of what is in a home namespace, by the name of the original."""
    completed = await remote.kubectl(
        "get", kind, f"--namespace={namespace}-there", SELECTOR, "-o", "json"
    )
    return {
        item["metadata"]["annotations"]["vkubelet.io/home-name"]: item
        for item in completed.json()["items"]
    }


async def test_a_pod_sees_what_it_refers_to(home: Cluster, granted: str) -> None:
    await create(
        home,
        config_map("settings", granted, colour="blue", **{"app.conf": "a = 1\n"}),
        secret("key", granted, password="s3cr3t $(HOME) $$"),
    )
    container = build_container(
        'echo "$colour $P_password"; cat "$POD_ROOT/etc/app/app.conf"; cat "$POD_ROOT/key/p"; echo',
        envFrom=[
            {"configMapRef": {"name": "settings"}},
            {"secretRef": {"name": "key"}, "prefix": "P_"},
        ],
        volumeMounts=[
            {"name": "conf", "mountPath": "/etc/app"},
            {"name": "all", "mountPath": "/key"},
        ],
    )
    items = [{"key": "password", "path": "p"}]
    volumes = [
        {"name": "conf", "configMap": {"name": "settings"}},
        {"name": "all", "projected": {"sources": [{"secret": {"name": "key", "items": items}}]}},
    ]
    await create(home, build("reader", granted, containers=[container], volumes=volumes))
    await wait_pod(home, "reader", granted, "reader", phase="Running")
    await wait_log(home, "reader", granted, "blue s3cr3t $(HOME) $$\na = 1\ns3cr3t $(HOME) $$")


async def test_copies_follow_their_originals_and_go_with_the_last_pod(
    home: Cluster, remote: Cluster, granted: str
) -> None:
    await create(home, config_map("settings", granted, colour="blue"))
    volumes = [{"name": "v", "configMap": {"name": "settings"}}]
    await create(home, build("follower", granted, volumes=volumes))
    await wait_pod(home, "follower", granted, "follower", phase="Running")
    copies = await list_copies(remote, "configmaps", granted)
    assert copies["settings"]["data"] == {"colour": "blue"}

    patch = '{"data":{"colour":"red","size":"9"}}'
    await home.kubectl("patch", "configmap", "settings", f"--namespace={granted}", "-p", patch)

    async def followed() -> bool:
        found = await list_copies(remote, "configmaps", granted)
        return bool(found["settings"]["data"] == {"colour": "red", "size": "9"})

    await wait_until(followed, "the copy follows", timeout_seconds=20)
    await home.kubectl("delete", "pod", "follower", f"--namespace={granted}", "--wait=false")
    await wait_gone(home, "follower", granted)

    async def gone() -> bool:
        return not await list_copies(remote, "configmaps", granted)

    await wait_until(gone, "the copy goes", timeout_seconds=60)


async def test_an_immutable_secret_that_is_made_anew_is_replaced(
    home: Cluster, remote: Cluster, granted: str
) -> None:
    await create(home, {**secret("fixed", granted, a="1"), "immutable": True})
    volumes = [{"name": "v", "secret": {"secretName": "fixed"}}]
    await create(home, build("fixed", granted, volumes=volumes))
    await wait_pod(home, "fixed", granted, "fixed", phase="Running")
    await home.kubectl("delete", "secret", "fixed", f"--namespace={granted}")
    await create(home, {**secret("fixed", granted, a="2"), "immutable": True})

    async def replaced() -> bool:
        found = (await list_copies(remote, "secrets", granted)).get("fixed", {})
        return bool(found.get("data") == {"a": "Mg=="} and found.get("immutable"))

    await wait_until(replaced, "the copy is replaced", timeout_seconds=20)


async def test_a_pod_waits_for_what_is_missing_and_starts_when_it_is_there(
    home: Cluster, granted: str
) -> None:
    volumes = [
        {"name": "v", "configMap": {"name": "late"}},
        {"name": "o", "secret": {"secretName": "never", "optional": True}},
    ]
    pod = build("waiting", granted, volumes=volumes, imagePullSecrets=[{"name": "registry"}])
    await create(home, pod)
    event = await wait_reason(home, "waiting", granted, "MandatoryConfigMapNotFound")
    assert event["message"] == 'configmap "late" not found'
    status = (await get_pod(home, "waiting", granted))["status"]
    assert (status["phase"], status["reason"]) == ("Pending", "MandatoryConfigMapNotFound")
    await create(home, config_map("late", granted, a="b"))
    await wait_pod(home, "waiting", granted, "waiting", phase="Running", seconds=15)
    event = await wait_reason(home, "waiting", granted, "OptionalSecretNotFound")
    assert event["message"].startswith('secret "never" not found')
    event = await wait_reason(home, "waiting", granted, "PartlyReflected")
    assert 'image pull secret "registry" not found' in event["message"]


async def test_without_the_right_only_pods_that_need_it_wait(home: Cluster, namespace: str) -> None:
    await create(home, config_map("settings", namespace, a="b"))
    volumes = [{"name": "v", "configMap": {"name": "settings"}}]
    await create(
        home,
        build("needs", namespace, volumes=volumes, automountServiceAccountToken=False),
        build("plain", namespace, automountServiceAccountToken=False),
    )
    await wait_pod(home, "plain", namespace, "plain", phase="Running")
    event = await wait_reason(home, "needs", namespace, "MissingRight")
    assert f"configmaps in home namespace {namespace}" in event["message"]
    await grant_namespace(home, namespace)
    await wait_pod(home, "needs", namespace, "needs", phase="Running", seconds=60)
