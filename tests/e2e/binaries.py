"""
The programs of the real nodes: kubelet, containerd, runc and CNI plugins, built once.

`python -m tests.e2e.binaries` (`make e2e`) builds what is missing, and installs the Debian packages
that the build and the nodes need when it runs as root. Tests only look the programs up.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.cluster.binaries import (
    build_cache_path,
    build_into_cache,
    read_version,
    report,
    run_tool,
)
from tests.cluster.gobuild import BuildError, GoBuild
from tests.e2e.machine import SYSTEM_PATH, MachineError, check_machine

CONTAINERD_VERSION = "2.4.2"
RUNC_VERSION = "1.5.3"
CNI_PLUGINS_VERSION = "1.9.1"
_BUILD = 1  # counts up when what is built below changes

_KUBELET_PACKAGES = {"kubelet": "k8s.io/kubernetes/cmd/kubelet"}
_CNI_PLUGINS = "github.com/containernetworking/plugins/plugins"
_RUNTIME_PACKAGES = {
    "containerd": "github.com/containerd/containerd/v2/cmd/containerd",
    "containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    "ctr": "github.com/containerd/containerd/v2/cmd/ctr",
    "runc": "github.com/opencontainers/runc",
    "bridge": f"{_CNI_PLUGINS}/main/bridge",
    "loopback": f"{_CNI_PLUGINS}/main/loopback",
    "host-local": f"{_CNI_PLUGINS}/ipam/host-local",
    "portmap": f"{_CNI_PLUGINS}/meta/portmap",
}
_RUNTIME_TAGS = ("seccomp", "no_btrfs", "no_devmapper", "no_zfs")
_PAUSE = "pause"
_PAUSE_SOURCE = Path(__file__).with_name("pause.c")

BUSYBOX = Path("/bin/busybox")
_DEBIAN_PACKAGES: dict[str, Callable[[], bool]] = {
    "gcc": lambda: shutil.which("gcc") is not None,
    "libc6-dev": lambda: _pkg_has_file("/usr/lib/*/libc.a"),
    "pkg-config": lambda: shutil.which("pkg-config") is not None,
    "libseccomp-dev": lambda: _pkg_has_file("/usr/include/seccomp.h"),
    "iptables": lambda: shutil.which("iptables", path=SYSTEM_PATH) is not None,
    "iproute2": lambda: shutil.which("ip", path=SYSTEM_PATH) is not None,
    "util-linux": lambda: shutil.which("nsenter", path=SYSTEM_PATH) is not None,
    "busybox-static": lambda: _is_static(BUSYBOX),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrograms:
    """
    Where the programs of a node are.

    Attributes:
        kubelet: The kubelet, of the cluster's version.
        runtime: Folder of containerd, its shim, ctr, runc and the CNI plugins.
    """

    kubelet: Path
    runtime: Path

    @property
    def pause(self) -> Path:
        """The static program of a pod's sandbox."""
        return self.runtime / _PAUSE


class NodeProgramsMissingError(Exception):
    """They aren't there yet."""

    def __str__(self) -> str:
        return "the programs of real nodes aren't built yet: run `make e2e`"


def _pkg_has_file(pattern: str) -> bool:
    return any(Path("/").glob(pattern.removeprefix("/")))


def _is_static(program: Path) -> bool:
    """Whether a program needs no shared libraries: no ELF interpreter is named in its head."""
    try:
        with program.open("rb") as file:
            return b"/ld-linux" not in file.read(4096)
    except OSError:
        return False


def find_missing_packages() -> list[str]:
    """Name the Debian packages that are needed and not installed."""
    return [name for name, is_there in _DEBIAN_PACKAGES.items() if not is_there()]


def install_packages() -> None:
    """
    Install what is missing, as root on Debian and its kin.

    Raises:
        BuildError: If it can't be installed; the text names the packages.
    """
    if not (missing := find_missing_packages()):
        return
    names = " ".join(missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BuildError(f"install these Debian packages (or what is like them): {names}")
    report(f"installing {names}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    output: list[str] = []
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
        done = subprocess.run(
            ["apt-get", "--quiet", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        output = f"{done.stdout}{done.stderr}".strip().splitlines()
    if still := find_missing_packages():
        raise BuildError("\n".join([f"apt-get can't install {' '.join(still)}", *output[-5:]]))


def _build_runtime_mod() -> str:
    lines = ["module vkubelet.test/node", "", "go 1.26.0", "", "tool ("]
    lines += [f"\t{package}" for package in _RUNTIME_PACKAGES.values()]
    lines += [
        ")",
        "",
        "require (",
        f"\tgithub.com/containerd/containerd/v2 v{CONTAINERD_VERSION}",
        f"\tgithub.com/opencontainers/runc v{RUNC_VERSION}",
        f"\tgithub.com/containernetworking/plugins v{CNI_PLUGINS_VERSION}",
        ")",
        "",
    ]
    return "\n".join(lines)


def _build_runtime(folder: Path) -> Path:
    build = GoBuild(folder, report, _RUNTIME_PACKAGES, cgo=True, tags=_RUNTIME_TAGS)
    programs = build.run(_build_runtime_mod())
    done = subprocess.run(
        ["gcc", "-Os", "-static", "-s", "-o", programs / _PAUSE, _PAUSE_SOURCE],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"gcc can't compile {_PAUSE_SOURCE.name}: {done.stderr.strip()}")
    return programs


def _build_kubelet(folder: Path) -> Path:
    return GoBuild(folder, report, _KUBELET_PACKAGES).run_kubernetes(read_version())


def _read_targets() -> tuple[tuple[Path, str, tuple[str, ...], Callable[[Path], Path]], ...]:
    """Each folder of the cache: what it is, which programs it has, how it's built."""
    version = read_version()
    runtime = build_cache_path(
        f"{CONTAINERD_VERSION}-{RUNC_VERSION}-{CNI_PLUGINS_VERSION}-{_BUILD}", "runtime"
    )
    return (
        (
            build_cache_path(version, "kubelet"),
            f"the kubelet {version}; from nothing this takes 5 minutes",
            tuple(_KUBELET_PACKAGES),
            _build_kubelet,
        ),
        (
            runtime,
            (
                f"containerd {CONTAINERD_VERSION}, runc {RUNC_VERSION} and CNI plugins "
                f"{CNI_PLUGINS_VERSION}; from nothing this takes 2 minutes"
            ),
            (*_RUNTIME_PACKAGES, _PAUSE),
            _build_runtime,
        ),
    )


def _has_all(folder: Path, programs: tuple[str, ...]) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in programs)


def locate() -> NodePrograms:
    """
    Find the programs; nothing is built.

    Raises:
        NodeProgramsMissingError: If one isn't there.
    """
    targets = _read_targets()
    if find_missing_packages() or not all(_has_all(target[0], target[2]) for target in targets):
        raise NodeProgramsMissingError
    kubelet, runtime = (target[0] for target in targets)
    return NodePrograms(kubelet=kubelet / "kubelet", runtime=runtime)


def main() -> None:
    """Install and build what is missing, and print where it is."""
    install_packages()
    try:
        check_machine()
    except MachineError as error:
        raise BuildError(str(error)) from error
    for folder, what, programs, build in _read_targets():
        if not _has_all(folder, programs):
            build_into_cache(
                folder,
                what,
                partial(_has_all, folder, programs),
                build,
            )
    found = locate()
    print(f"Real nodes:\n  {found.kubelet}\n  {found.runtime}")


if __name__ == "__main__":
    sys.exit(run_tool(main))
