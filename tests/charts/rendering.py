"""The charts as Helm renders them, without a cluster."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.binaries import DEFAULT_VERSION
from tests.cluster.helm import PROGRAM

CHARTS = Path(__file__).parents[2] / "charts"
HOME = CHARTS / "vkubelet"
REMOTE = CHARTS / "vkubelet-remote"
NAMESPACE = "vk"

LEAST: Mapping[str, Any] = {
    "config": {"remote": {"cluster": "cloud"}, "namespaces": {"names": ["demo"]}},
    "remoteKubeconfig": {"secretName": "cloud"},
}
"""What the home chart can't do without."""


def merge(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge values as Helm does."""
    merged = dict(base)
    for key, value in more.items():
        before = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(before, Mapping)
        merged[key] = merge(before, value) if both else value  # type: ignore[arg-type] # both are
    return merged


def run_helm(*arguments: str, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run helm with values on its standard input."""
    return subprocess.run(
        [PROGRAM.locate(), *arguments, "--values=-"],
        input=yaml.safe_dump(dict(values)),
        capture_output=True,
        text=True,
        check=False,
    )


def template(
    chart: Path, values: Mapping[str, Any], *, release: str = "peering"
) -> subprocess.CompletedProcess[str]:
    """Render a chart's objects."""
    arguments = (f"--namespace={NAMESPACE}", f"--kube-version={DEFAULT_VERSION}")
    return run_helm("template", release, str(chart), *arguments, values=values)


def render(
    chart: Path, values: Mapping[str, Any], *, release: str = "peering"
) -> list[dict[str, Any]]:
    """Render a chart's objects, and read them."""
    done = template(chart, values, release=release)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def find(
    objects: Sequence[Mapping[str, Any]], kind: str, name: str, namespace: str = ""
) -> Mapping[str, Any]:
    """Find an object."""
    return next(
        found
        for found in objects
        if (found["kind"], found["metadata"]["name"]) == (kind, name)
        and found["metadata"].get("namespace", "") == namespace
    )


def is_hook(found: Mapping[str, Any]) -> bool:
    """Whether an object is there for a moment only."""
    return "helm.sh/hook" in found["metadata"].get("annotations", {})
