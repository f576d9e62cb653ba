"""
Whether this machine can run real nodes: `python -m tests.e2e.machine` tells what is missing.

Each thing that a node needs is tried once, in namespaces of its own, and leaves nothing behind.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.slot_janitor import find_hierarchies

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CGROUP = "vkubelet-e2e-check"
_CONTROLLERS = frozenset(("cpu", "cpuset", "memory", "pids"))
_TIMEOUT_SECONDS = 20.0

_TRIES = {
    "mount namespaces": "mount --make-rprivate / && mount --make-rshared /",
    "a /proc of its own (masked paths of a container forbid it)": "mount -t proc proc /proc",
    "tmpfs": "mount -t tmpfs tmpfs /run",
    "network links (veth)": "ip link add vke2e-check type veth peer name vke2e-peer",
    "network bridges": "ip link add vke2e-bridge type bridge",
}


class MachineError(Exception):
    """This machine can't run real nodes; the text has a line for each reason."""


def check_machine() -> None:
    """
    Try what real nodes need.

    Raises:
        MachineError: If something can't be done here.
    """
    if problems := list(_find_problems()):
        raise MachineError("\n".join(["this machine can't run real nodes:", *problems]))


def _find_problems() -> Iterator[str]:
    if sys.platform != "linux":
        yield "  it doesn't run Linux"
        return
    if os.geteuid() != 0:
        yield "  root is needed"
        return
    yield from _find_namespace_problems()
    yield from _find_cgroup_problems()


def _find_namespace_problems() -> Iterator[str]:
    unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c"]
    if problem := _try(*unshare, "true"):
        yield f"  namespaces can't be made (is the container privileged?): {problem}"
        return
    for what, script in _TRIES.items():
        if problem := _try(*unshare, script):
            yield f"  {what}: {problem}"


def _try(*argv: str) -> str:
    """Run a command; what it says if it fails."""
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_SECONDS,
        env={"PATH": SYSTEM_PATH},
    )
    if done.returncode == 0:
        return ""
    return done.stderr.strip().replace("\n", "; ") or f"exit code {done.returncode}"


def _find_cgroup_problems() -> Iterator[str]:
    v1, v2 = find_hierarchies("cgroup"), find_hierarchies("cgroup2")
    controllers = set(_read_v1_controllers())
    for hierarchy in () if v1 else v2:
        controllers.update((hierarchy / "cgroup.controllers").read_text().split())
    if missing := _CONTROLLERS - controllers:
        yield f"  control groups: no controller {', '.join(sorted(missing))} is mounted"
    for hierarchy in v1 or v2:
        try:
            (hierarchy / _CGROUP).mkdir(exist_ok=True)
        except OSError as error:
            yield f"  control groups can't be made: {hierarchy}: {error.strerror}"
        else:
            with contextlib.suppress(OSError):
                (hierarchy / _CGROUP).rmdir()


def _read_v1_controllers() -> Iterator[str]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, _, kind, options, *_ = line.split()
        if kind == "cgroup":
            yield from options.split(",")


def main() -> int:
    """Check, and tell."""
    try:
        check_machine()
    except MachineError as error:
        print(error, file=sys.stderr)
        return 1
    print("this machine can run real nodes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
