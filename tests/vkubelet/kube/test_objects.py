"""Paths, keys, and objects that keep what they don't know."""

import msgspec
import pytest

from vkubelet.kube.objects import (
    LEASES,
    NODES,
    PODS,
    NamespacedName,
    Resource,
    build_controller_reference,
    build_object_reference,
    decode_cached,
    decode_object,
    encode_object,
)


@pytest.mark.parametrize(
    ("resource", "where", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("a",), "/api/v1/namespaces/a/pods"),
        (PODS, ("a", "p", "log"), "/api/v1/namespaces/a/pods/p/log"),
        (NODES, ("", "n", "status"), "/api/v1/nodes/n/status"),
        (LEASES, ("a", "l"), "/apis/coordination.k8s.io/v1/namespaces/a/leases/l"),
        (NODES, ("ignored", "n"), "/api/v1/nodes/n"),
    ],
)
def test_paths(resource: Resource, where: tuple[str, ...], path: str) -> None:
    assert resource.path(*where) == path


def test_api_version() -> None:
    assert (PODS.api_version, LEASES.api_version) == ("v1", "coordination.k8s.io/v1")


def test_keys_read_as_kubectl_writes_them() -> None:
    assert str(NamespacedName("a", "p")) == "a/p"
    assert str(NamespacedName("", "n")) == "n"


def test_a_cached_object_keeps_all_of_it() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "a", "uid": "u", "newer": {"than": "us"}},
        "spec": {"newer": [1, 2.5, None]},
    }
    cached = decode_cached(encode_object(body))
    assert cached.metadata.key == NamespacedName("a", "p")
    assert cached.decode() == body
    cached.decode()["spec"]["newer"].append("mine")
    assert cached.decode() == body


def test_the_controller_is_the_owner_that_controls() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"},
        {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": True},
    ]
    cached = decode_cached(encode_object({"metadata": {"name": "p", "ownerReferences": owners}}))
    assert cached.metadata.controller is not None
    assert cached.metadata.controller.name == "b"
    assert decode_cached(b'{"metadata":{}}').metadata.controller is None


def test_references() -> None:
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "a", "uid": "u", "resourceVersion": "7"},
    }
    assert build_controller_reference(owner) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "c",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": False,
    }
    assert build_object_reference(owner)["namespace"] == "a"
    cluster_scoped = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    assert "namespace" not in build_object_reference(cluster_scoped)


def test_what_is_no_object_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_object(b"[]")
