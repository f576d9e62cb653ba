from typing import Any

import pytest

from provider.translation.refusals import (
    REASON_CLAIMS,
    REASON_HOST_ACCESS,
    REASON_RESOURCE_CLAIMS,
    REASON_RUNTIME_CLASS,
    REASON_VOLUME,
    check_can_travel,
)
from vkubelet.errors import RefusedError


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "data", **source}]}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "app", **fields}]}


def projected(*sources: dict[str, Any]) -> dict[str, Any]:
    return volume(projected={"sources": [*sources]})


@pytest.mark.parametrize(
    ("spec", "reason", "named"),
    [
        (projected({"podCertificate": {}}), REASON_VOLUME, "volume 'data'"),
        (volume(persistentVolumeClaim={"claimName": "disk"}), REASON_CLAIMS, "disk"),
        (volume(ephemeral={}), REASON_CLAIMS, "volume 'data'"),
        ({"hostNetwork": True}, REASON_HOST_ACCESS, "hostNetwork"),
        ({"runtimeClassName": "gvisor"}, REASON_RUNTIME_CLASS, "gvisor"),
        ({"resourceClaims": [{"name": "gpu"}]}, REASON_RESOURCE_CLAIMS, "'gpu'"),
    ],
)
def test_what_cannot_travel_is_refused_and_named(
    spec: dict[str, Any], reason: str, named: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        check_can_travel(spec, allow_host_access=False)
    assert caught.value.reason == reason
    assert named in caught.value.message


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"hostNetwork": False, "resourceClaims": [], "runtimeClassName": None},
        volume(emptyDir={}),
        volume(downwardAPI={"items": []}),
        projected({"serviceAccountToken": {}}, {"configMap": {"name": "kube-root-ca.crt"}}),
        projected({"serviceAccountToken": {}}, {"secret": {"name": "key"}}),
        volume(configMap={"name": "settings"}),
        volume(secret={"secretName": "key"}),
        volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "key"}}),
        container(env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "key"}}}]),
        container(envFrom=[{"configMapRef": {"name": "a"}}]),
        {"imagePullSecrets": [{"name": "registry"}]},
    ],
)
def test_pods_that_can_travel(spec: dict[str, Any]) -> None:
    check_can_travel(spec, allow_host_access=False)


def test_host_access_travels_when_allowed() -> None:
    spec = volume(hostPath={"path": "/"}) | {"hostNetwork": True}
    check_can_travel(spec, allow_host_access=True)
    with pytest.raises(RefusedError):
        check_can_travel(spec | {"runtimeClassName": "x"}, allow_host_access=True)


def test_all_that_is_wrong_is_told_at_once() -> None:
    spec = volume(persistentVolumeClaim={"claimName": "a"}) | {"hostPID": True}
    with pytest.raises(RefusedError) as caught:
        check_can_travel(spec, allow_host_access=False)
    assert caught.value.message == (
        "hostPID: host access isn't allowed; volume 'data' uses PersistentVolumeClaim a:"
        " PersistentVolumeClaims don't cross to the remote cluster"
    )
