"""
ConfigMaps and Secrets on a process node: as environment, and as files under `$POD_ROOT`.

They are read when the pod starts; later changes aren't followed. A volume that is mounted at
`/etc/x` is at `$POD_ROOT/etc/x`, the same for all containers of the pod.
"""

import asyncio
import base64
import copy
from pathlib import Path
from typing import Any

from vkubelet.errors import RetryError
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import NotFoundError
from vkubelet.kube.objects import CONFIG_MAPS, SECRETS, KubeObject, NamespacedName

POD_ROOT = "POD_ROOT"


class Dependents:
    """What one pod needs, read once each."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._known: dict[tuple[str, str], dict[str, bytes] | None] = {}

    async def read(self, kind: str, holder: KubeObject, key: str = "name") -> dict[str, bytes]:
        """
        Return the contents of an object; none of an optional one that isn't there.

        Raises:
            RetryError: If it isn't there, in the kubelet's words.
        """
        name = str(holder.get(key, ""))
        if (kind, name) not in self._known:
            self._known[kind, name] = await self._fetch(kind, name)
        contents = self._known[kind, name]
        if contents is not None:
            return contents
        if holder.get("optional"):
            return {}
        raise RetryError(f'{kind} "{name}" not found')

    async def _fetch(self, kind: str, name: str) -> dict[str, bytes] | None:
        resource = SECRETS if kind == "secret" else CONFIG_MAPS
        try:
            found = await self._client.get(resource, NamespacedName(self._namespace, name))
        except NotFoundError:
            return None
        data: dict[str, str] = found.get("data") or {}
        if kind == "secret":
            return {key: base64.b64decode(value) for key, value in data.items()}
        binary: dict[str, str] = found.get("binaryData") or {}
        return {key: value.encode() for key, value in data.items()} | {
            key: base64.b64decode(value) for key, value in binary.items()
        }


async def bring_dependents(pod: KubeObject, client: KubeClient, folder: Path) -> KubeObject:
    """
    Return the pod with plain values in its environment; its volumes are files then.

    Raises:
        RetryError: If something isn't there.
        KubeError: If the API server can't be asked.
    """
    brought = copy.deepcopy(pod)
    spec = brought["spec"]
    dependents = Dependents(client, pod["metadata"]["namespace"])
    files = {
        volume["name"]: contents
        for volume in spec.get("volumes") or []
        if (contents := await _read_volume(volume, dependents)) is not None
    }
    for container in (*spec.get("initContainers", []), *spec["containers"]):
        container["env"] = await _read_environment(container, dependents)
        mounts = [item for item in container.get("volumeMounts", []) if item["name"] in files]
        if mounts:
            container["env"].insert(0, {"name": POD_ROOT, "value": str(folder / "root")})
        for mount in mounts:
            target = folder / "root" / mount["mountPath"].lstrip("/")
            await asyncio.to_thread(_write, target, files[mount["name"]])
        container.pop("envFrom", None)
    spec["volumes"] = [item for item in spec.get("volumes") or [] if item["name"] not in files]
    return brought


async def _read_environment(container: KubeObject, dependents: Dependents) -> list[dict[str, Any]]:
    environment: list[dict[str, Any]] = []
    for source in container.get("envFrom", []):
        for kind, key in (("configmap", "configMapRef"), ("secret", "secretRef")):
            if key in source:
                contents = await dependents.read(kind, source[key])
                environment += [
                    {"name": source.get("prefix", "") + name, "value": _escape(value)}
                    for name, value in contents.items()
                ]
    for variable in container.get("env", []):
        found = await _read_variable(variable, dependents)
        if found is not None:
            environment.append(found)
    return environment


async def _read_variable(variable: KubeObject, dependents: Dependents) -> KubeObject | None:
    source = variable.get("valueFrom") or {}
    for kind, key in (("configmap", "configMapKeyRef"), ("secret", "secretKeyRef")):
        if key in source:
            contents = await dependents.read(kind, source[key])
            if source[key]["key"] in contents:
                return {"name": variable["name"], "value": _escape(contents[source[key]["key"]])}
            if source[key].get("optional"):
                return None
            raise RetryError(f"couldn't find key {source[key]['key']} in {kind}")
    return variable


async def _read_volume(volume: KubeObject, dependents: Dependents) -> dict[str, bytes] | None:
    if "configMap" in volume:
        return _choose(await dependents.read("configmap", volume["configMap"]), volume["configMap"])
    if "secret" in volume:
        contents = await dependents.read("secret", volume["secret"], "secretName")
        return _choose(contents, volume["secret"])
    if "projected" not in volume:
        return None
    files: dict[str, bytes] = {}
    for source in volume["projected"].get("sources", []):
        for kind, key in (("configmap", "configMap"), ("secret", "secret")):
            if key in source:
                files |= _choose(await dependents.read(kind, source[key]), source[key])
    return files


def _choose(contents: dict[str, bytes], holder: KubeObject) -> dict[str, bytes]:
    items = holder.get("items")
    if not items:
        return contents
    return {item["path"]: contents[item["key"]] for item in items if item["key"] in contents}


def _write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, contents in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(contents)


def _escape(value: bytes) -> str:
    """Such values aren't expanded, but what they become here will be."""
    return value.decode(errors="replace").replace("$", "$$")
