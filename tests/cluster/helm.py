"""
Helm: built once, and run against a test cluster.

`python -m tests.cluster.helm` (`make binaries`) builds it unless it's there.
"""

import os
import sys
from pathlib import Path

from tests.cluster.binaries import build_cache_path, build_into_cache, report, run_tool
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.gobuild import GoBuild
from tests.cluster.kubectl import Completed, run_kubectl

VERSION = "3.22.0"

_PROGRAM = "helm"
_MODULE = "helm.sh/helm/v3"
_PACKAGES = {_PROGRAM: f"{_MODULE}/cmd/{_PROGRAM}"}
_TIMEOUT_SECONDS = 90.0


class HelmMissingError(Exception):
    """It isn't there yet."""

    def __str__(self) -> str:
        return f"helm {VERSION} isn't built yet: run `make binaries`"


def _folder() -> Path:
    return build_cache_path(VERSION, _PROGRAM)


def _is_there() -> bool:
    return os.access(_folder() / _PROGRAM, os.X_OK)


def locate() -> Path:
    """
    Find the program; nothing is built.

    Raises:
        HelmMissingError: If it isn't there.
    """
    if not _is_there():
        raise HelmMissingError
    return _folder() / _PROGRAM


def _build(folder: Path) -> Path:
    lines = ["module vkubelet.test/helm", "", "go 1.26.0", ""]
    lines += [f"tool {package}" for package in _PACKAGES.values()]
    lines += ["", f"require {_MODULE} v{VERSION}", ""]
    return GoBuild(folder, report, _PACKAGES).run("\n".join(lines))


def main() -> None:
    """Build it if it's missing, and print where it is."""
    if not _is_there():
        what = f"helm {VERSION}; from nothing this takes 2 minutes"
        build_into_cache(_folder(), what, _is_there, _build)
    print(f"helm {VERSION}:\n  {locate()}")


async def run_helm(
    *args: str,
    cluster: Cluster,
    stdin: str = "",
    check: bool = True,
    kubeconfig: Path | None = None,
) -> Completed:
    """
    Run helm to its end, as the cluster's admin unless a kubeconfig is given.

    Raises:
        ClusterError: If it fails or takes too long; the text has its output.
    """
    config = kubeconfig or cluster.admin_kubeconfig
    completed = await run_kubectl(
        [str(locate()), f"--kubeconfig={config}", *args],
        name=f"{cluster.name}: helm {' '.join(args)}",
        home=cluster.folder,
        env={},
        stdin=stdin,
        timeout_seconds=_TIMEOUT_SECONDS,
    )
    if check and completed.returncode != 0:
        raise ClusterError(
            f"{completed.name}: exit code {completed.returncode}\n"
            f"{completed.stdout}{completed.stderr}"
        )
    return completed


if __name__ == "__main__":
    sys.exit(run_tool(main))
