from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from vkubelet.kube.objects import CachedObject, NamespacedName, ObjectMeta
from vkubelet.kube.store import MutableStore

Pods = MutableStore[CachedObject]


def build(name: str, *, namespace: str = "ns", **labels: str) -> CachedObject:
    return CachedObject(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=labels), raw=b"{}"
    )


def index_labels(item: CachedObject) -> Iterable[str]:
    return item.metadata.labels.values()


def test_put_get_remove() -> None:
    store = Pods()
    first, second = build("a"), build("a", x="1")
    key = NamespacedName("ns", "a")

    assert store.put(first) is None
    assert store.get(key) is first
    assert store.put(second) is first
    assert (list(store), list(store.keys()), len(store)) == ([second], [key], 1)
    assert key in store
    assert store.remove(key) is second
    assert store.remove(key) is None
    assert (store.get(key), len(store)) == (None, 0)


def test_cluster_scoped_and_namespaced_keys_differ() -> None:
    store = Pods()
    store.put(build("a", namespace=""))
    store.put(build("a"))
    assert len(store) == 2


def test_index_follows_changes() -> None:
    store = Pods({"label": index_labels})
    store.put(build("a", app="x", tier="y"))
    store.put(build("b", app="x"))
    assert [item.metadata.name for item in store.by_index("label", "x")] == ["a", "b"]
    assert [item.metadata.name for item in store.by_index("label", "y")] == ["a"]

    store.put(build("a", app="z"))
    assert [item.metadata.name for item in store.by_index("label", "x")] == ["b"]
    assert list(store.by_index("label", "y")) == []

    store.remove(NamespacedName("ns", "b"))
    assert list(store.by_index("label", "x")) == []
    assert list(store.by_index("label", "never")) == []


def test_index_value_given_twice() -> None:
    store = Pods({"label": index_labels})
    store.put(build("a", one="x", two="x"))
    assert len(list(store.by_index("label", "x"))) == 1
    store.remove(NamespacedName("ns", "a"))
    assert list(store.by_index("label", "x")) == []


def test_unknown_index_is_an_error() -> None:
    with pytest.raises(KeyError):
        Pods().by_index("nope", "x")


def test_views_dont_change_while_read() -> None:
    store = Pods({"label": index_labels})
    store.put(build("a", app="x"))
    store.put(build("b", app="x"))
    for view in (iter(store), iter(store.by_index("label", "x")), iter(store.keys())):
        next(view)
        store.put(build("c", app="x"))
        store.remove(NamespacedName("ns", "c"))
        next(view)
        with pytest.raises(StopIteration):
            next(view)


def test_failing_indexer_leaves_the_store_as_it_was() -> None:
    def refuse(item: CachedObject) -> Iterable[str]:
        if item.metadata.labels.get("bad"):
            raise ValueError(item.metadata.name)
        return item.metadata.labels.values()

    store = Pods({"label": refuse})
    good = build("a", app="x")
    store.put(good)
    with pytest.raises(ValueError, match="a"):
        store.put(build("a", bad="1"))
    assert store.get(NamespacedName("ns", "a")) is good
    assert list(store.by_index("label", "x")) == [good]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.none() | st.dictionaries(st.sampled_from("kl"), st.sampled_from("xyz"), max_size=2),
        )
    )
)
def test_indexes_equal_those_built_afresh(
    operations: list[tuple[str, dict[str, str] | None]],
) -> None:
    store = Pods({"label": index_labels})
    for name, labels in operations:
        if labels is None:
            store.remove(NamespacedName("ns", name))
        else:
            store.put(build(name, **labels))
    for value in "xyz":
        expected = {item.metadata.name for item in store if value in index_labels(item)}
        assert {item.metadata.name for item in store.by_index("label", value)} == expected
