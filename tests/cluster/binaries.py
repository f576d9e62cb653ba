"""
The Kubernetes programs of the test clusters: found, or built once and kept outside the tree.

`python -m tests.cluster.binaries` (`make binaries`) builds what is missing and prints where they
are. It needs nothing but the standard library. Tests only look them up.
"""

import contextlib
import errno
import fcntl
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.cluster.gobuild import KUBERNETES_PACKAGES, BuildError, GoBuild

DEFAULT_VERSION = "1.37.2"
_OLDEST_ETCD = (3, 5)


class BinariesMissingError(Exception):
    """Those of a version aren't there yet."""

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self._version = version

    def __str__(self) -> str:
        make = f"KUBERNETES_VERSION={self._version} make binaries"
        return f"Kubernetes {self._version} isn't built yet: run `{make}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """Full paths of the programs of one version."""

    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path
    etcd: Path


PROGRAMS = tuple(field.name.replace("_", "-") for field in fields(Binaries))


def read_version() -> str:
    """
    Read the version that is asked for, from KUBERNETES_VERSION.

    Raises:
        BuildError: If it isn't a full version.
    """
    return _read_version("KUBERNETES_VERSION", DEFAULT_VERSION)


def read_kubectl_version() -> str:
    """Read kubectl's version, from KUBECTL_VERSION; the servers' if it isn't given."""
    return _read_version("KUBECTL_VERSION", read_version())


def _read_version(variable: str, default: str) -> str:
    version = (os.environ.get(variable) or default).removeprefix("v")
    if not re.fullmatch(r"1\.\d+\.\d+", version):
        raise BuildError(f"{variable} must be like {DEFAULT_VERSION}, not {version!r}")
    return version


def build_cache_path(version: str, kind: str = "kubernetes") -> Path:
    """The folder that keeps the programs of a kind and version, for this system."""
    cache = os.environ.get("VKUBELET_CACHE")
    if not cache:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        cache = str(Path(base, "vkubelet"))
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return Path(cache, kind, f"v{version}-{sys.platform}-{machine}").absolute()


def is_version(program: str, path: Path, version: str) -> bool:
    """Ask a program for its version; etcd has its own, and any from 3.5 on will do."""
    args = ["version", "--client"] if program == "kubectl" else ["--version"]
    try:
        done = subprocess.run(
            [path, *args], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    if program == "etcd":
        found = re.search(r"etcd Version: (\d+)\.(\d+)", done.stdout)
        return found is not None and (int(found[1]), int(found[2])) >= _OLDEST_ETCD
    return re.search(rf"\bv{re.escape(version)}(?![\w.+-])", done.stdout) is not None


def _find_in_path(path: str, version: str) -> dict[str, Path] | None:
    found: dict[str, Path] = {}
    for program in PROGRAMS:
        if (file := shutil.which(program, path=path)) is None:
            return None
        found[program] = Path(file).absolute()
    if all(is_version(program, file, version) for program, file in found.items()):
        return found
    return None


def _find_in_cache(version: str) -> dict[str, Path] | None:
    folder = build_cache_path(version)
    found = {program: folder / program for program in PROGRAMS}
    return found if all(os.access(file, os.X_OK) for file in found.values()) else None


def find(version: str) -> Binaries | None:
    """Find a whole set of one version: in KUBEBUILDER_ASSETS, in the cache, on PATH."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    found = (
        (_find_in_path(assets, version) if assets else None)
        or _find_in_cache(version)
        or _find_in_path(os.environ.get("PATH", os.defpath), version)
    )
    if found is None:
        return None
    return Binaries(**{program.replace("-", "_"): file for program, file in found.items()})


def locate() -> Binaries:
    """
    Find the programs of the versions that are asked for; nothing is built.

    Raises:
        BinariesMissingError: If they aren't there.
    """
    servers, client = (_locate(version) for version in (read_version(), read_kubectl_version()))
    return replace(servers, kubectl=client.kubectl)


def _locate(version: str) -> Binaries:
    binaries = find(version)
    if binaries is None:
        raise BinariesMissingError(version)
    return binaries


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another build of this version runs: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_into_cache(
    target: Path, what: str, is_there: Callable[[], bool], build: Callable[[Path], Path]
) -> None:
    """
    Build programs into a folder of the cache, unless another process does it meanwhile.

    Args:
        target: The folder.
        what: What the progress calls it.
        is_there: Whether the programs are there; asked once nobody else builds them.
        build: Builds in an empty folder, and returns the folder of the programs in it.

    Raises:
        BuildError: If they can't be built.
    """
    with _lock(target.with_name(f"{target.name}.lock")):
        if is_there():  # the other build made them
            return
        prefix = f".{target.name}-"
        for stale in target.parent.glob(f"{prefix}*"):  # of a build that was killed
            shutil.rmtree(stale, ignore_errors=True)
        started = time.monotonic()
        report(f"building {what}")
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
        try:
            programs = build(folder)
            shutil.rmtree(target, ignore_errors=True)  # an incomplete one
            programs.rename(target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        report(f"built in {time.monotonic() - started:.0f} s")


def _build(version: str) -> Binaries:
    def build(folder: Path) -> Path:
        programs = GoBuild(folder, report, KUBERNETES_PACKAGES).run_kubernetes(version)
        for program in PROGRAMS:
            if not is_version(program, programs / program, version):
                raise BuildError(f"the {program} that was built doesn't say it's {version}")
        return programs

    build_into_cache(
        build_cache_path(version),
        f"Kubernetes {version} and etcd; from nothing this takes 5 to 10 minutes",
        lambda: find(version) is not None,
        build,
    )
    return _locate(version)


def report(line: str) -> None:
    """Show a line of progress."""
    print(f"binaries: {line}", file=sys.stderr, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def run_tool(build: Callable[[], None]) -> int:
    """Run a build as a program of its own, and return the exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        build()
    except BuildError as error:
        report(f"error: {error}")
        return 1
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        report(f"error: {'the disk is full: ' if full else ''}{error}")
        return 1
    except KeyboardInterrupt:
        report("interrupted")
        return 130
    return 0


def main() -> None:
    """Build what is missing, and print where the programs are."""
    for version in dict.fromkeys((read_version(), read_kubectl_version())):
        binaries = find(version) or _build(version)
        print(f"Kubernetes {version}:")
        for field in fields(binaries):
            print(f"  {getattr(binaries, field.name)}")


if __name__ == "__main__":
    sys.exit(run_tool(main))
