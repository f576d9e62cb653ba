"""What a pod's spec means for child processes: command, environment, working directory."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vkubelet.errors import RefusedError
from vkubelet.kube.objects import KubeObject

# Ends at once on SIGTERM, with 0, as the pause container does.
_DEFAULT_COMMAND = ("/bin/sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait")

_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")

# The volume that the API server adds to nearly every pod.
_TOKEN_VOLUME_PREFIX = "kube-api-access-"

_IGNORED_CONTAINER_FIELDS = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """
    A container, ready to be started; the marker of an instance is added to its environment.

    Attributes:
        name: Its name.
        image: Ignored, but shown.
        command: Program and arguments.
        environment: All of its environment.
        folder: Its working directory.
        stdin: Whether it has a stdin, for who attaches.
        stdin_once: Whether that ends with the first who attaches.
        tty: Whether it has a terminal.
    """

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a pod runs: its node, addresses and folder."""

    node: str
    pod_ip: str
    host_ip: str
    folder: Path


def build_container_specs(
    pod: KubeObject, placement: Placement
) -> tuple[tuple[ContainerSpec, ...], tuple[ContainerSpec, ...]]:
    """
    Build the init containers and the containers of a pod.

    Raises:
        RefusedError: If the pod needs what processes can't have.
    """
    spec = pod["spec"]
    init = spec.get("initContainers", [])
    for container in (*init, *spec["containers"]):
        if "restartPolicy" in container:
            raise RefusedError(
                "UnsupportedRestartPolicy",
                f'container "{container["name"]}": process nodes know restartPolicy of pods only',
            )
    fields = _build_fields(pod, placement)
    return (
        tuple(_build_container_spec(container, fields, placement) for container in init),
        tuple(
            _build_container_spec(container, fields, placement) for container in spec["containers"]
        ),
    )


def list_warnings(pod: KubeObject) -> list[str]:
    """List what a process node ignores in this pod, a sentence each."""
    spec = pod["spec"]
    found = {"activeDeadlineSeconds"} & spec.keys()
    if not all(v["name"].startswith(_TOKEN_VOLUME_PREFIX) for v in spec.get("volumes", [])):
        found.add("volumes")
    for container in (*spec.get("initContainers", []), *spec["containers"]):
        found |= {field for field in _IGNORED_CONTAINER_FIELDS if field in container}
    return [f"Process nodes ignore {field}." for field in sorted(found)]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Expand $(NAME) as Kubernetes does: unknown names stay, $$ is a dollar sign."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replace, text)


def _build_container_spec(
    container: KubeObject, fields: Mapping[str, str], placement: Placement
) -> ContainerSpec:
    variables: dict[str, str] = {}
    if container.get("envFrom"):
        raise _refuse_environment(container, "envFrom")
    for entry in container.get("env", []):
        variables[entry["name"]] = _resolve(container, entry, variables, fields)
    # Without a command the args go to the image's entry point; here there is none.
    command = [*container.get("command", []), *container.get("args", [])]
    return ContainerSpec(
        name=container["name"],
        image=container.get("image", ""),
        command=tuple(expand(part, variables) for part in command) or _DEFAULT_COMMAND,
        environment={
            "PATH": os.environ.get("PATH", _DEFAULT_PATH),
            "HOME": str(placement.folder),
            "HOSTNAME": fields["metadata.name"],
            **variables,
        },
        folder=_build_folder(container.get("workingDir", ""), placement.folder),
        stdin=container.get("stdin", False),
        stdin_once=container.get("stdinOnce", False),
        tty=container.get("tty", False),
    )


def _resolve(
    container: KubeObject,
    entry: KubeObject,
    variables: Mapping[str, str],
    fields: Mapping[str, str],
) -> str:
    source = entry.get("valueFrom")
    if not source:
        return expand(entry.get("value", ""), variables)
    path = source.get("fieldRef", {}).get("fieldPath")
    if path not in fields:
        raise _refuse_environment(container, f"{entry['name']} from {path or next(iter(source))}")
    return fields[path]


def _refuse_environment(container: KubeObject, what: str) -> RefusedError:
    return RefusedError(
        "UnsupportedEnvironment",
        f'container "{container["name"]}": process nodes can\'t set {what} in its environment',
    )


def _build_fields(pod: KubeObject, placement: Placement) -> dict[str, str]:
    metadata = pod["metadata"]
    return {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": placement.node,
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.hostIP": placement.host_ip,
        "status.hostIPs": placement.host_ip,
        "status.podIP": placement.pod_ip,
        "status.podIPs": placement.pod_ip,
    }


def _build_folder(working_dir: str, folder: Path) -> Path:
    """Take an absolute directory that exists; others are made below the pod's folder."""
    if working_dir.startswith("/") and Path(working_dir).is_dir():
        return Path(working_dir)
    return folder / working_dir.lstrip("/")
