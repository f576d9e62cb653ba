"""
What of a remote pod is changed so that it's as its home pod says now.

The API lets little of a pod change: labels and annotations, images, tolerations (more of them), a
shorter deadline; by subresources ephemeral containers (more of them) and resources. What was asked
for last is kept in an annotation of the remote pod, so that a restart of the process changes
nothing, whatever webhooks and people over there have made of images and labels.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from provider.labels import APPLIED, HOME_GENERATION
from vkubelet.kube.objects import KubeObject, encode_object
from vkubelet.kube.quantity import parse_quantity

RESIZABLE = ("cpu", "memory")
"""What a pod's `resize` may change."""

_HASH_BYTES = 8


class Applied(msgspec.Struct, frozen=True):
    """
    What was asked for.

    Attributes:
        labels: Keys of the labels.
        annotations: Keys of the annotations.
        images: Images by container.
        placement: Fingerprint of nodeSelector and affinity.
    """

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    images: dict[str, str] = msgspec.field(default_factory=dict)
    placement: str = ""


@dataclass(frozen=True, slots=True)
class PodChanges:
    """
    Patches (strategic merge) that make a remote pod as wanted; None where nothing differs.

    Attributes:
        pod: Of the pod itself.
        ephemeral_containers: Of its subresource of that name.
        resize: Of its subresource of that name.
    """

    pod: KubeObject | None
    ephemeral_containers: KubeObject | None
    resize: KubeObject | None

    @property
    def pod_without_generation(self) -> KubeObject | None:
        """`pod`, but for the generation of the home pod: if other changes were refused."""
        if self.pod is None:
            return None
        metadata = dict(self.pod["metadata"])
        annotations = {
            key: value
            for key, value in metadata.pop("annotations", {}).items()
            if key != HOME_GENERATION
        }
        if annotations:
            metadata["annotations"] = annotations
        patch = {**self.pod, "metadata": metadata}
        return None if patch == {"metadata": {"uid": metadata["uid"]}} else patch


def note_applied(pod: KubeObject) -> None:
    """Put what is asked for into the annotations of a remote pod that is to be made."""
    metadata: KubeObject = pod["metadata"]
    spec: KubeObject = pod["spec"]
    applied = Applied(
        labels=tuple(sorted(metadata["labels"])),
        annotations=tuple(sorted(metadata["annotations"])),
        images={item["name"]: item.get("image", "") for item in _containers(spec)},
        placement=_fingerprint({key: spec.get(key) for key in ("nodeSelector", "affinity")}),
    )
    metadata["annotations"][APPLIED] = encode_object(applied).decode()


def read_applied(pod: KubeObject) -> Applied | None:
    """Read what was asked for of a remote pod; None if that isn't known."""
    text = (pod["metadata"].get("annotations") or {}).get(APPLIED)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Applied)
    except msgspec.MsgspecError:
        return None


def is_placed_otherwise(existing: KubeObject, wanted: KubeObject) -> bool:
    """Whether a remote pod waits for a node, but not for those that it may run on now."""
    if existing["spec"].get("nodeName"):
        return False
    before, now = read_applied(existing), read_applied(wanted)
    return before is not None and now is not None and before.placement != now.placement


def find_changes(
    existing: KubeObject, wanted: KubeObject, ephemeral_containers: Sequence[KubeObject]
) -> PodChanges:
    """
    Find what has to be changed of a remote pod.

    Args:
        existing: The remote pod as it is.
        wanted: As it would be made now.
        ephemeral_containers: Those that it's to have.
    """
    metadata = _find_metadata_changes(existing, wanted)
    spec = _find_spec_changes(existing, wanted)
    uid = {"uid": existing["metadata"]["uid"]}  # another pod of that name is left alone
    pod: KubeObject = {"metadata": {**uid, **metadata}} | ({"spec": spec} if spec else {})
    known = {item["name"] for item in existing["spec"].get("ephemeralContainers") or ()}
    added = [item for item in ephemeral_containers if item["name"] not in known]
    resized = _find_resized(existing["spec"], wanted["spec"])
    return PodChanges(
        pod=pod if metadata or spec else None,
        ephemeral_containers=(
            {"metadata": uid, "spec": {"ephemeralContainers": added}} if added else None
        ),
        resize={"metadata": uid, "spec": resized} if resized else None,
    )


def _find_metadata_changes(existing: KubeObject, wanted: KubeObject) -> KubeObject:
    applied = read_applied(existing) or Applied()
    changes: KubeObject = {}
    for field, keys in (("labels", applied.labels), ("annotations", applied.annotations)):
        there: Mapping[str, str] = existing["metadata"].get(field) or {}
        asked: Mapping[str, str] = wanted["metadata"][field]
        changed: dict[str, str | None] = {
            key: value for key, value in asked.items() if there.get(key) != value
        }
        changed |= {key: None for key in keys if key in there and key not in asked}
        if changed:
            changes[field] = changed
    return changes


def _find_spec_changes(existing: KubeObject, wanted: KubeObject) -> KubeObject:
    there, asked = existing["spec"], wanted["spec"]
    applied = read_applied(existing) or Applied()
    changes: KubeObject = {}
    for field in ("initContainers", "containers"):
        images = {item["name"]: item.get("image", "") for item in there.get(field) or ()}
        changed = [
            {"name": item["name"], "image": item["image"]}
            for item in asked.get(field) or ()
            if item["name"] in images
            and item.get("image")
            and item["image"] not in (_last(applied, item["name"], images), images[item["name"]])
        ]
        if changed:
            changes[field] = changed
    deadline, known = asked.get("activeDeadlineSeconds"), there.get("activeDeadlineSeconds")
    if deadline is not None and (known is None or deadline < known):
        changes["activeDeadlineSeconds"] = deadline
    tolerations: list[KubeObject] = there.get("tolerations") or []
    identities = [_identify_toleration(item) for item in tolerations]
    added = [
        item
        for item in asked.get("tolerations") or ()
        if _identify_toleration(item) not in identities
    ]
    if added:
        changes["tolerations"] = [*tolerations, *added]
    return changes


def _last(applied: Applied, container: str, images: Mapping[str, str]) -> str:
    """The image that was asked for last; that which is there if that isn't known."""
    return applied.images.get(container, images[container])


def _identify_toleration(toleration: KubeObject) -> tuple[Any, ...]:
    return (
        toleration.get("key") or "",
        toleration.get("operator") or "Equal",
        toleration.get("value") or "",
        toleration.get("effect") or "",
        toleration.get("tolerationSeconds"),
    )


def _find_resized(there: KubeObject, asked: KubeObject) -> KubeObject:
    changes: KubeObject = {}
    for field in ("initContainers", "containers"):
        known = {item["name"]: item for item in there.get(field) or ()}
        changed = [
            {"name": item["name"], "resources": resources}
            for item in asked.get(field) or ()
            if item["name"] in known and (resources := _find_resources(known[item["name"]], item))
        ]
        if changed:
            changes[field] = changed
    if resources := _find_resources(there, asked):
        changes["resources"] = resources
    return changes


def _find_resources(there: KubeObject, asked: KubeObject) -> KubeObject:
    """Requests and limits that differ; what only the remote pod has stays, as of a LimitRange."""
    known: KubeObject = there.get("resources") or {}
    wanted: KubeObject = asked.get("resources") or {}
    changes: KubeObject = {}
    for field in ("requests", "limits"):
        here = known.get(field) or {}
        changed = {
            name: quantity
            for name, quantity in (wanted.get(field) or {}).items()
            if name in RESIZABLE and not _equal(quantity, here.get(name))
        }
        if changed:
            changes[field] = changed
    return changes


def _equal(quantity: str, other: str | None) -> bool:
    return other is not None and parse_quantity(quantity) == parse_quantity(other)


def _containers(spec: KubeObject) -> Iterable[KubeObject]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _fingerprint(value: object) -> str:
    data = msgspec.json.encode(value, order="sorted")
    return hashlib.blake2b(data, digest_size=_HASH_BYTES).hexdigest()
