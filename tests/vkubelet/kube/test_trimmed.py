"""Pods as Stores keep them."""

from typing import Any

import msgspec

from vkubelet.kube.trimmed import decode_trimmed_pod, trim_pod

POD: dict[str, Any] = {
    "metadata": {
        "namespace": "a",
        "name": "p",
        "uid": "u",
        "labels": {"app": "x"},
        "managedFields": [{"manager": "kubelet"}],
        "newField": {"kept": True},
    },
    "spec": {"containers": [{"name": "c", "newer": 1}]},
    "status": {"phase": "Running"},
}


def test_only_managed_fields_go() -> None:
    kept = decode_trimmed_pod(msgspec.json.encode(POD))
    metadata = {name: value for name, value in POD["metadata"].items() if name != "managedFields"}
    assert kept.decode() == {**POD, "apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    assert kept.metadata.key == ("a", "p")
    assert kept.metadata.labels == {"app": "x"}


def test_the_spec_is_passed_on_byte_by_byte() -> None:
    raw = b'{"metadata":{"name":"p","namespace":"a"},"spec":{"b":1.50, "a":[ ]}}'
    assert bytes(trim_pod(raw).spec) == b'{"b":1.50, "a":[ ]}'
