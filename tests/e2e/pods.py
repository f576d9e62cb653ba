"""The pods that the tables' requests are made to, and when each is as it stays."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.e2e.real_node import BUSYBOX_IMAGE

WEB_PORT = 8080
ECHO_PORT = 9001
CLOSED_PORT = 9
BIG_FILE_BYTES = 6_000_000
FLOOD_LINES = 100_000
_LONG_LINE_BYTES = 40_000  # containerd cuts lines into parts of 16 KiB

_IDLE = ["sleep", "3600"]
_READY = "touch /tmp/ready"
_TALK = f"""
i=1
while [ $i -le 20 ]; do echo "out $i"; echo "err $i" >&2; i=$((i+1)); done
head -c {_LONG_LINE_BYTES} /dev/zero | tr '\\0' x; echo
printf 'bytes \\001\\377 and no end of line'
{_READY}; exec sleep 3600
"""
_FLOOD = f"seq 1 {FLOOD_LINES}; {_READY}; exec sleep 3600"
_AGAIN = """
[ -e /state/ran ] && { echo second; exec sleep 3600; }
touch /state/ran; echo first; exit 3
"""
_SERVE = f"""
mkdir /www; echo small >/www/small
head -c {BIG_FILE_BYTES} /dev/urandom >/www/big
nc -ll -p {ECHO_PORT} -e cat &
httpd -p {WEB_PORT} -h /www
{_READY}; exec sleep 3600
"""
_REPLY = "echo listening; while read line; do echo got $line; done"
_MISSING_IMAGE = "vkubelet.test/none:1"


def build_container(name: str, command: Sequence[str], **fields: Any) -> dict[str, Any]:
    """Build a container of the busybox image."""
    return {"name": name, "image": BUSYBOX_IMAGE, "command": list(command), **fields}


def shell(name: str, script: str, **fields: Any) -> dict[str, Any]:
    """Build a container that runs a script; it's Ready when that says so, if it does."""
    if _READY in script:
        check = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
        fields = {"startupProbe": {**check, "failureThreshold": 60}, **fields}
    return build_container(name, ["sh", "-c", script], **fields)


PODS: Mapping[str, Mapping[str, Any]] = {
    "talker": {"containers": [shell("main", _TALK)]},
    "flood": {"containers": [shell("main", _FLOOD)]},
    "ended": {"containers": [shell("main", "echo bye; exit 3")], "restartPolicy": "Never"},
    "silent": {"containers": [shell("main", "exit 0")], "restartPolicy": "Never"},
    "again": {
        "containers": [
            shell("main", _AGAIN, volumeMounts=[{"name": "state", "mountPath": "/state"}])
        ],
        "volumes": [{"name": "state", "emptyDir": {}}],
    },
    "inits": {
        "initContainers": [
            shell("prepare", "echo prepared"),
            shell("sidecar", "echo beside; exec sleep 3600", restartPolicy="Always"),
        ],
        "containers": [shell("main", "echo started; exec sleep 3600")],
    },
    "failed-init": {
        "initContainers": [shell("prepare", "echo broken >&2; exit 4")],
        "containers": [build_container("main", _IDLE)],
        "restartPolicy": "Never",
    },
    "initializing": {
        "initContainers": [shell("prepare", "echo working; exec sleep 3600")],
        "containers": [build_container("main", _IDLE)],
    },
    "no-image": {
        "containers": [
            build_container("main", _IDLE, image=_MISSING_IMAGE, imagePullPolicy="Never")
        ],
    },
    "pair": {
        "containers": [
            shell("first", "echo I am first; exec sleep 3600"),
            shell("second", "echo I am second; exec sleep 3600"),
        ],
    },
    "reader": {"containers": [shell("main", _REPLY, stdin=True)]},
    "web": {"containers": [shell("main", _SERVE)]},
}
"""Specs by pod name."""


def is_settled(name: str, pod: Mapping[str, Any]) -> bool:
    """Whether nothing of a pod will change any more."""
    status = pod.get("status", {})
    statuses = status.get("containerStatuses", ())
    states = [item.get("state", {}) for item in statuses]
    match name:
        case "ended" | "silent":
            return status.get("phase") in ("Succeeded", "Failed")
        case "failed-init":
            return bool(status.get("phase") == "Failed")
        case "again":
            restarts = [item["restartCount"] for item in statuses]
            return restarts == [1] and "running" in states[0]
        case "initializing":
            inits = status.get("initContainerStatuses", ())
            return any("running" in item.get("state", {}) for item in inits)
        case "no-image":
            reasons = [state.get("waiting", {}).get("reason") for state in states]
            return reasons == ["ErrImageNeverPull"]
        case _:
            return bool(states) and all(item.get("ready") for item in statuses)
