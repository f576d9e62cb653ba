"""A shell as a reader of the documents has it: programs, contexts, the project's folder."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cluster import binaries, launch
from tests.cluster.cluster import Cluster
from tests.cluster.helm import PROGRAM
from tests.cluster.kubectl import Completed
from tests.cluster.peering import build_environment
from tests.docs.commands import REPOSITORY

_TIMEOUT_SECONDS = 90.0
_PIP = (
    "exec {python} -m pip --disable-pip-version-check {first} --quiet --no-deps --no-index"
    ' --no-build-isolation --target={site} "$@"'
)
_COPIED = ("LICENSE", "README.md", "certs", "charts", "docs", "provider", "pyproject.toml")


class Shell:
    """Runs command lines in a folder that looks like the project's."""

    def __init__(self, folder: Path, home: Cluster, remote: Cluster) -> None:
        self._folder = folder / "project"
        self._programs = folder / "bin"
        site = folder / "site"
        for made in (self._folder, self._programs, site):
            made.mkdir()
        for name in (*_COPIED, "vkubelet"):
            (self._folder / name).symlink_to(REPOSITORY / name)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(_merge(home=home, remote=remote))
        self._environment = build_environment(
            HOME=str(folder),
            KUBECONFIG=str(kubeconfig),
            PATH=f"{self._programs}:{os.defpath}",
            PYTHONPATH=f"{REPOSITORY}:{site}",
            HELM_CACHE_HOME=str(folder / "helm"),
        )
        self._add("kubectl", f'exec {binaries.locate().kubectl} "$@"')
        self._add("helm", f'exec {PROGRAM.locate()} "$@"')
        self._add("vkubelet", f'exec {sys.executable} -m provider "$@"')
        self._add("pip", f"shift; {_PIP.format(python=sys.executable, first='install', site=site)}")

    def _add(self, name: str, script: str) -> None:
        program = self._programs / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    async def run(self, text: str) -> Completed:
        """Run a command line to its end."""
        command = launch.build_command(["/bin/bash", "-euo", "pipefail", "-c", text])
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder,
            env=self._environment,
        )
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                stdout, stderr = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Completed(
            name=text,
            returncode=process.returncode or 0,
            stdout=stdout.decode(),
            stderr=stderr.decode(),
        )


def _merge(**clusters: Cluster) -> str:
    """Make one kubeconfig of several: a context each, called as said."""
    merged: dict[str, list[dict[str, object]]] = {"clusters": [], "users": [], "contexts": []}
    for name, cluster in clusters.items():
        found = json.loads(cluster.admin_kubeconfig.read_text())
        merged["clusters"].append({**found["clusters"][0], "name": name})
        merged["users"].append({**found["users"][0], "name": name})
        merged["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    return json.dumps({"apiVersion": "v1", "kind": "Config", **merged})
