"""What the schemas let in and keep out."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from provider.config import Config, config_fields
from provider.configuration import load_config
from provider.errors import ConfigError
from tests.charts.rendering import HOME, LEAST, REMOTE, merge, template
from tests.charts.values_schema import (
    SET_BY_CHART,
    build_home_schema,
    build_remote_schema,
    render,
)


def test_files_are_up_to_date() -> None:
    for file, text in render():
        assert file.read_text(encoding="utf-8") == text, "run `make charts`"


def walk(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the paths of a values file, down to what the chart knows by name."""
    for key, value in values.items():
        yield f"{prefix}{key}", value
        if isinstance(value, Mapping):
            yield from walk(value, f"{prefix}{key}.")


def paths_of(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, part in schema.get("properties", {}).items():
        yield f"{prefix}{key}"
        yield from paths_of(part, f"{prefix}{key}.")


@pytest.mark.parametrize(
    ("chart", "schema"), [(HOME, build_home_schema()), (REMOTE, build_remote_schema())]
)
def test_every_value_has_a_default_that_is_shown(chart: Any, schema: dict[str, Any]) -> None:
    known = set(paths_of(schema)) - {"global"}
    shown = dict(walk(yaml.safe_load((chart / "values.yaml").read_text())))
    open_ended = {path for path in known if path.startswith("config.") and path.count(".") > 1}
    assert known - open_ended <= shown.keys()
    assert all(
        path in known or any(path.startswith(f"{free}.") for free in known) for path in shown
    )


def test_every_key_of_the_configuration_is_there_but_those_that_the_chart_sets() -> None:
    known = set(paths_of(build_home_schema()["properties"]["config"]))
    keys = {item.path for item in config_fields(Config)}
    assert {".".join(path) for path in keys - SET_BY_CHART} <= known
    assert not known & {".".join(path) for path in SET_BY_CHART}
    assert keys >= SET_BY_CHART


CASES: list[tuple[str, str, Any, bool]] = [
    ("remote", "cluster", "cloud", True),
    ("remote", "cluster", "Cloud_1", False),
    ("remote", "cluster", 123, False),
    ("remote", "unreachable", "keep", True),
    ("remote", "unreachable", "shrug", False),
    ("remote", "allowExec", True, True),
    ("remote", "allowExec", "maybe", False),
    ("namespaces", "names", ["*"], True),
    ("namespaces", "names", ["a", "b-1"], True),
    ("namespaces", "names", ["A"], False),
    ("namespaces", "names", [], False),
    ("namespaces", "names", "a", False),
    ("nodes", "maxNodes", 3, True),
    ("nodes", "maxNodes", 0, False),
    ("nodes", "labels", ["a.b/c=d", "e="], True),
    ("nodes", "labels", ["a"], False),
    ("nodes", "labels", ["-=x"], False),
    ("nodes", "taints", ["a=b:NoSchedule", "a:NoExecute"], True),
    ("nodes", "taints", ["a=b:Never"], False),
    ("nodes", "annotations", ["a=any text: at all"], True),
    ("nodes", "name", "node.example", True),
    ("nodes", "name", "Node", False),
    ("capacity", "percent", 100, True),
    ("capacity", "percent", 101, False),
    ("capacity", "percent", 0, False),
    ("capacity", "limits", ["cpu=8", "nvidia.com/gpu=2", "memory=12.5Gi"], True),
    ("capacity", "limits", ["cpu"], False),
    ("capacity", "foreignUse", "ignore", True),
    ("capacity", "foreignUse", "guess", False),
    ("removal", "delay", "1h30m", True),
    ("removal", "delay", 90, True),
    ("removal", "delay", "90", True),
    ("removal", "delay", "soon", False),
    ("removal", "delay", -1, False),
    ("removal", "drainTimeout", "5m", True),
    ("pods", "daemonsets", "pending", True),
    ("pods", "daemonsets", "ignore", False),
    ("kubelet", "ports", "10250-10260", True),
    ("kubelet", "ports", "10250", False),
    ("kubelet", "certificates", "self-signed", True),
    ("kubelet", "certificates", "none", False),
    ("process", "logLevel", "debug", True),
    ("process", "logLevel", "loud", False),
]


@pytest.mark.parametrize(("section", "key", "value", "good"), CASES)
def test_schema_and_process_agree(section: str, key: str, value: Any, *, good: bool) -> None:
    values = merge(LEAST, {"config": {section: {key: value}}})
    done = template(HOME, values)
    assert (done.returncode == 0) is good, done.stderr
    if not good:
        assert f"/config/{section}" in done.stderr
        assert key in done.stderr
    assert accepted_by_process(values["config"]) is good


def accepted_by_process(config: Mapping[str, Any]) -> bool:
    sections = merge(config, {"remote": {"kubeconfig": "/x"}, "kubelet": {"address": "192.0.2.1"}})
    try:
        load_tree(sections)
    except ConfigError:
        return False
    return True


def load_tree(sections: Mapping[str, Any]) -> Config:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.yaml")
        file.write_text(yaml.safe_dump(dict(sections)))
        return load_config(Config, file=file, environment={}, flags={})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replicas": 2}, "replicas"),
        ({"config": {"remote": {"kubeconfig": "/x"}}}, "kubeconfig"),
        ({"config": {"remote": {"clutser": "x"}}}, "clutser"),
        ({"config": {"zone": {}}}, "zone"),
        ({"config": {"kubelet": {"address": "192.0.2.1"}}}, "address"),
        ({"config": {"process": {"dataDir": "/x"}}}, "dataDir"),
        ({"image": {"name": "x"}}, "name"),
        ({"image": {"digest": "sha256:1"}}, "digest"),
        ({"remoteKubeconfig": {"secretName": ""}}, "secretName"),
        ({"remoteKubeconfig": {"secretName": "x/y"}}, "secretName"),
        ({"healthPort": 70000}, "healthPort"),
        ({"priorityClass": {"value": 2000000000}}, "value"),
        ({"networkPolicy": {"apiServerCIDRs": "10.0.0.0/8"}}, "apiServerCIDRs"),
        ({"test": {"command": "echo"}}, "command"),
        ({"admissionPolicy": {"nodeNames": [1]}}, "nodeNames"),
    ],
)
def test_values_that_are_refused(values: dict[str, Any], said: str) -> None:
    done = template(HOME, merge(LEAST, values))
    assert done.returncode != 0
    assert "don't meet the specifications of the schema" in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "peering"),
        ({"peering": "Cloud"}, "peering"),
        ({"peering": "cloud", "podSecurity": "loose"}, "podSecurity"),
        ({"peering": "cloud", "homeClusterUID": "x"}, "homeClusterUID"),
        ({"peering": "cloud", "namespaces": "a"}, "namespaces"),
        ({"peering": "cloud", "foreignUse": "ignore"}, "foreignUse"),
    ],
)
def test_values_that_the_remote_chart_refuses(values: dict[str, Any], said: str) -> None:
    done = template(REMOTE, values)
    assert done.returncode != 0
    assert said in done.stderr


def test_values_of_charts_around_are_let_through() -> None:
    assert template(HOME, merge(LEAST, {"global": {"anything": 1}})).returncode == 0
