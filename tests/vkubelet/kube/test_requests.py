"""Paths and queries of calls."""

import pytest

from vkubelet.kube.objects import LEASES, NODES, PODS, NamespacedName
from vkubelet.kube.requests import (
    collection_path,
    key_of,
    object_path,
    quote_path,
    with_pairs,
    with_query,
    without_query,
)


def test_paths() -> None:
    key = NamespacedName("a", "b")
    assert object_path(LEASES, key) == "/apis/coordination.k8s.io/v1/namespaces/a/leases/b"
    assert object_path(NODES, key, "status") == "/api/v1/nodes/b/status"
    assert collection_path(PODS, "a") == "/api/v1/namespaces/a/pods"
    assert collection_path(PODS, "a", "b", "eviction") == ("/api/v1/namespaces/a/pods/b/eviction")
    assert quote_path("/api/a b%") == "/api/a%20b%25"


@pytest.mark.parametrize("key", [NamespacedName("a", ""), NamespacedName("", "b")])
def test_no_path_to_more_than_one_object(key: NamespacedName) -> None:
    with pytest.raises(ValueError, match="isn't the key of a Pod"):
        object_path(PODS, key)


def test_no_path_to_create_at() -> None:
    with pytest.raises(ValueError, match="a Pod needs a namespace"):
        collection_path(PODS, "")
    with pytest.raises(ValueError, match="only work together"):
        collection_path(PODS, "a", "b")


def test_queries() -> None:
    assert with_query("/p", {"a": "1 2", "b": ""}) == "/p?a=1+2"
    assert with_query("/p", {"b": ""}) == "/p"
    assert with_pairs("/p", [("c", "x"), ("c", "ü")]) == "/p?c=x&c=%C3%BC"
    assert without_query("/p?a=b") == "/p"


def test_key_of_a_body() -> None:
    assert key_of({"metadata": {"namespace": "a", "name": "b"}}) == NamespacedName("a", "b")
    assert key_of({"metadata": {"name": "b"}}) == NamespacedName("", "b")
    assert key_of({}) == NamespacedName("", "")
