"""
The downward API: a container sees of its pod what home's users see.

The name is the same on both sides. `status.hostIP`, `status.podIP` and resources are left to the
remote kubelet: they are about the machine that the container runs on.
"""

from dataclasses import dataclass
from typing import Any

from provider.labels import HOME_NAMESPACE, HOME_POD_UID
from vkubelet.kube.objects import KubeObject

_VOLUME_PATHS = {
    "metadata.namespace": f"metadata.annotations['{HOME_NAMESPACE}']",
    "metadata.uid": f"metadata.labels['{HOME_POD_UID}']",
}
"""A file can't hold a literal, but it can show what we put on the remote pod."""


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """What home says of a pod, and the remote kubelet would say otherwise."""

    namespace: str
    uid: str
    node_name: str
    service_account_name: str

    def literal(self, field_path: str) -> str | None:
        """Return home's value of a field, None where the remote kubelet's is the right one."""
        return {
            "metadata.namespace": self.namespace,
            "metadata.uid": self.uid,
            "spec.nodeName": self.node_name,
            "spec.serviceAccountName": self.service_account_name,
        }.get(field_path)


def rewrite_variable(variable: KubeObject, facts: HomeFacts) -> KubeObject:
    """Return an environment variable with home's value in place of a fieldRef to it."""
    value_from: dict[str, Any] = variable.get("valueFrom") or {}
    field_ref: dict[str, Any] = value_from.get("fieldRef") or {}
    literal = facts.literal(field_ref.get("fieldPath", ""))
    if literal is None:
        return variable
    rewritten = {key: value for key, value in variable.items() if key != "valueFrom"}
    return {**rewritten, "value": literal}


def rewrite_volume(volume: KubeObject) -> KubeObject:
    """Return a volume whose downward API files show home's values."""
    if volume.get("downwardAPI") is not None:
        return {**volume, "downwardAPI": _rewrite_items(volume["downwardAPI"])}
    projected = volume.get("projected")
    if projected is None:
        return volume
    sources = [_rewrite_source(source) for source in projected.get("sources") or []]
    return {**volume, "projected": {**projected, "sources": sources}}


def _rewrite_source(source: KubeObject) -> KubeObject:
    if source.get("downwardAPI") is None:
        return source
    return {**source, "downwardAPI": _rewrite_items(source["downwardAPI"])}


def _rewrite_items(downward: KubeObject) -> KubeObject:
    if not downward.get("items"):
        return downward
    return {**downward, "items": [_rewrite_item(item) for item in downward["items"]]}


def _rewrite_item(item: KubeObject) -> KubeObject:
    field_ref: dict[str, Any] = item.get("fieldRef") or {}
    path = _VOLUME_PATHS.get(field_ref.get("fieldPath", ""))
    return item if path is None else {**item, "fieldRef": {**field_ref, "fieldPath": path}}
