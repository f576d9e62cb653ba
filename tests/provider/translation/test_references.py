from typing import Any

import pytest

from provider.translation.references import Reference, find_references


def in_volume(source: dict[str, Any]) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def in_container(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", **container}]}


def env(source: dict[str, Any]) -> dict[str, Any]:
    return {"name": "X", "valueFrom": source}


PLACES: list[tuple[dict[str, Any], str, str, str]] = [
    (in_volume({"configMap": {"name": "a"}}), "ConfigMap", "a", "volume 'v'"),
    (in_volume({"secret": {"secretName": "a"}}), "Secret", "a", "volume 'v'"),
    (
        in_volume({"projected": {"sources": [{"configMap": {"name": "a"}}]}}),
        "ConfigMap",
        "a",
        "volume 'v'",
    ),
    (
        in_volume({"projected": {"sources": [{"secret": {"name": "a"}}]}}),
        "Secret",
        "a",
        "volume 'v'",
    ),
    (
        in_volume({"projected": {"sources": [{"clusterTrustBundle": {"name": "a"}}]}}),
        "ClusterTrustBundle",
        "a",
        "volume 'v'",
    ),
    (
        in_volume({"projected": {"sources": [{"podCertificate": {"signerName": "s"}}]}}),
        "PodCertificateRequest",
        "",
        "volume 'v'",
    ),
    (
        in_volume({"persistentVolumeClaim": {"claimName": "a"}}),
        "PersistentVolumeClaim",
        "a",
        "volume 'v'",
    ),
    (
        in_volume({"ephemeral": {"volumeClaimTemplate": {}}}),
        "PersistentVolumeClaim",
        "of its own",
        "volume 'v'",
    ),
    (
        in_volume({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "a"}}}),
        "Secret",
        "a",
        "volume 'v'",
    ),
    (in_volume({"azureFile": {"secretName": "a"}}), "Secret", "a", "volume 'v'"),
    (in_volume({"cephfs": {"secretRef": {"name": "a"}}}), "Secret", "a", "volume 'v'"),
    (
        in_container(env=[env({"configMapKeyRef": {"name": "a", "key": "k"}})]),
        "ConfigMap",
        "a",
        "variable X of container 'c'",
    ),
    (
        in_container(env=[env({"secretKeyRef": {"name": "a", "key": "k"}})]),
        "Secret",
        "a",
        "variable X of container 'c'",
    ),
    (
        in_container(envFrom=[{"configMapRef": {"name": "a"}}]),
        "ConfigMap",
        "a",
        "envFrom of container 'c'",
    ),
    (
        in_container(envFrom=[{"secretRef": {"name": "a"}}]),
        "Secret",
        "a",
        "envFrom of container 'c'",
    ),
    (
        {"initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "a"}}]}]},
        "Secret",
        "a",
        "envFrom of container 'i'",
    ),
]


@pytest.mark.parametrize(("spec", "kind", "name", "place"), PLACES)
def test_every_place_that_names_an_object(
    spec: dict[str, Any], kind: str, name: str, place: str
) -> None:
    assert list(find_references(spec)) == [Reference(kind, name, place)]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"volumes": None, "containers": None},
        in_volume({"emptyDir": {}}),
        in_volume({"downwardAPI": {"items": []}}),
        in_volume({"projected": {}}),
        in_volume({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
        in_volume({"csi": {"driver": "d"}}),
        in_container(env=[{"name": "X", "value": "1"}], envFrom=None),
        in_container(env=[env({"fieldRef": {"fieldPath": "metadata.name"}})]),
    ],
)
def test_pods_that_need_nothing(spec: dict[str, Any]) -> None:
    assert list(find_references(spec)) == []


@pytest.mark.parametrize(("optional", "expected"), [({}, False), ({"optional": True}, True)])
def test_absent_optional_means_required(optional: dict[str, bool], expected: bool) -> None:
    spec = in_container(env=[env({"secretKeyRef": {"name": "a", "key": "k", **optional}})])
    assert [reference.optional for reference in find_references(spec)] == [expected]
