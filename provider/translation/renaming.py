"""References to ConfigMaps and Secrets, turned to their copies."""

from collections.abc import Iterable
from typing import Any

from provider.translation.dependents import DependentNames
from provider.translation.references import CONFIG_MAP, SECRET, driver_secret_keys
from provider.translation.tokens import ApiAccess, is_root_certificate, is_token_volume
from vkubelet.kube.objects import KubeObject


def rename_in_volume(volume: KubeObject, names: DependentNames, access: ApiAccess) -> KubeObject:
    """Return a volume that refers to the copies."""
    renamed = dict(volume)
    for source, value in volume.items():
        if not isinstance(value, dict):
            continue
        if source == "configMap":
            renamed[source] = _rename(value, "name", CONFIG_MAP, names)
        elif source == "secret":
            renamed[source] = _rename(value, "secretName", SECRET, names)
        elif source == "projected":
            keeps_certificate = access is ApiAccess.REMOTE and is_token_volume(volume)
            renamed[source] = _rename_projected(value, names, keeps_certificate=keeps_certificate)
        else:
            renamed[source] = _rename_in_driver(value, names)
    return renamed


def _rename_projected(
    projected: KubeObject, names: DependentNames, *, keeps_certificate: bool
) -> KubeObject:
    sources = [
        source
        if keeps_certificate and is_root_certificate(source)
        else _rename_source(source, names)
        for source in projected.get("sources") or []
    ]
    return {**projected, "sources": sources}


def _rename_source(source: KubeObject, names: DependentNames) -> KubeObject:
    renamed = dict(source)
    for key, kind in (("configMap", CONFIG_MAP), ("secret", SECRET)):
        if source.get(key) is not None:
            renamed[key] = _rename(source[key], "name", kind, names)
    return renamed


def _rename_in_driver(source: KubeObject, names: DependentNames) -> KubeObject:
    renamed = dict(source)
    for key in driver_secret_keys(source):
        value = source[key]
        if isinstance(value, dict):
            renamed[key] = _rename(value, "name", SECRET, names)
        else:
            renamed[key] = names.copy(SECRET, value)
    return renamed


def rename_in_container(container: KubeObject, names: DependentNames) -> KubeObject:
    """Return a container whose environment comes from the copies."""
    renamed = dict(container)
    if container.get("envFrom"):
        renamed["envFrom"] = [
            _rename_keys(item, {"configMapRef": CONFIG_MAP, "secretRef": SECRET}, names)
            for item in container["envFrom"]
        ]
    if container.get("env"):
        renamed["env"] = [_rename_variable(item, names) for item in container["env"]]
    return renamed


def _rename_variable(variable: KubeObject, names: DependentNames) -> KubeObject:
    value_from: KubeObject | None = variable.get("valueFrom")
    if not value_from:
        return variable
    kinds = {"configMapKeyRef": CONFIG_MAP, "secretKeyRef": SECRET}
    return {**variable, "valueFrom": _rename_keys(value_from, kinds, names)}


def _rename_keys(holder: KubeObject, kinds: dict[str, str], names: DependentNames) -> KubeObject:
    renamed = dict(holder)
    for key, kind in kinds.items():
        if holder.get(key) is not None:
            renamed[key] = _rename(holder[key], "name", kind, names)
    return renamed


def rename_pull_secrets(secrets: Iterable[KubeObject], names: DependentNames) -> list[KubeObject]:
    """Return imagePullSecrets that are the copies."""
    return [_rename(item, "name", SECRET, names) for item in secrets]


def _rename(holder: dict[str, Any], key: str, kind: str, names: DependentNames) -> KubeObject:
    name = holder.get(key)
    return {**holder, key: names.copy(kind, name)} if name else holder
