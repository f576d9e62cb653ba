"""The objects beside a pod that it needs: ConfigMaps, Secrets, claims."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vkubelet.kube.objects import KubeObject

CONFIG_MAP = "ConfigMap"
SECRET = "Secret"  # noqa: S105 - the kind, no secret
CLAIM = "PersistentVolumeClaim"
TRUST_BUNDLE = "ClusterTrustBundle"
POD_CERTIFICATE = "PodCertificateRequest"

_SECRET_KEYS = ("secretRef", "secretName", "nodePublishSecretRef")
"""How volume sources other than `secret` name a Secret."""


@dataclass(frozen=True, slots=True)
class Reference:
    """
    A pod's use of another object.

    Attributes:
        kind: Kind of the object.
        name: Its name; "" where the pod doesn't choose it.
        place: Where in the pod it's used, for messages.
        optional: Whether the pod can run without it.
    """

    kind: str
    name: str
    place: str
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.place} uses {self.kind} {self.name}".rstrip()


def find_references(spec: KubeObject) -> Iterator[Reference]:
    """Yield every use of another object by volumes and containers, in the pod's order."""
    for volume in spec.get("volumes") or []:
        yield from find_volume_references(volume)
    for container in iterate_containers(spec):
        yield from _find_container_references(container)


def iterate_containers(spec: KubeObject) -> Iterator[KubeObject]:
    """Yield init containers and containers; ephemeral ones can't be there at creation."""
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []


def find_volume_references(volume: KubeObject) -> Iterator[Reference]:
    """Yield the uses of other objects by one volume."""
    place = f"volume {volume.get('name', '')!r}"
    for source, value in volume.items():
        if not isinstance(value, dict):
            continue
        if source == "configMap":
            yield _build(CONFIG_MAP, value.get("name"), place, value)
        elif source == "secret":
            yield _build(SECRET, value.get("secretName"), place, value)
        elif source == "persistentVolumeClaim":
            yield _build(CLAIM, value.get("claimName"), place, {})
        elif source == "ephemeral":
            yield _build(CLAIM, "of its own", place, {})
        elif source == "projected":
            yield from _find_projected(value, place)
        else:
            yield from _find_secret_of_driver(value, place)


def _find_projected(projected: KubeObject, place: str) -> Iterator[Reference]:
    for source in projected.get("sources") or []:
        for kind, key in (
            (CONFIG_MAP, "configMap"),
            (SECRET, "secret"),
            (TRUST_BUNDLE, "clusterTrustBundle"),
        ):
            if source.get(key) is not None:
                yield _build(kind, source[key].get("name"), place, source[key])
        if source.get("podCertificate") is not None:
            yield _build(POD_CERTIFICATE, "", place, {})


def driver_secret_keys(source: KubeObject) -> Iterator[str]:
    """Yield the keys by which a volume source of a driver names Secrets."""
    for key in _SECRET_KEYS:
        if _name_of_secret(source.get(key)):
            yield key


def _name_of_secret(value: object) -> object:
    return value.get("name") if isinstance(value, dict) else value


def _find_secret_of_driver(source: KubeObject, place: str) -> Iterator[Reference]:
    for key in driver_secret_keys(source):
        yield _build(SECRET, _name_of_secret(source[key]), place, {})


def _find_container_references(container: KubeObject) -> Iterator[Reference]:
    place = f"container {container.get('name', '')!r}"
    for source in container.get("envFrom") or []:
        for kind, key in ((CONFIG_MAP, "configMapRef"), (SECRET, "secretRef")):
            if source.get(key) is not None:
                yield _build(kind, source[key].get("name"), f"envFrom of {place}", source[key])
    for variable in container.get("env") or []:
        value_from: dict[str, Any] = variable.get("valueFrom") or {}
        for kind, key in ((CONFIG_MAP, "configMapKeyRef"), (SECRET, "secretKeyRef")):
            reference = value_from.get(key)
            if reference is not None:
                where = f"variable {variable.get('name', '')} of {place}"
                yield _build(kind, reference.get("name"), where, reference)


def _build(kind: str, name: object, place: str, holder: KubeObject) -> Reference:
    return Reference(kind, str(name or ""), place, holder.get("optional") is True)
