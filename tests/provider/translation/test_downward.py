import copy
from typing import Any

import pytest

from provider.translation.downward import HomeFacts, rewrite_variable, rewrite_volume

FACTS = HomeFacts(namespace="shop", uid="u-1", node_name="vn", service_account_name="builder")


def field(path: str) -> dict[str, Any]:
    return {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u-1"),
        ("spec.nodeName", "vn"),
        ("spec.serviceAccountName", "builder"),
    ],
)
def test_variables_show_what_home_shows(path: str, value: str) -> None:
    variable = {"name": "X", "valueFrom": field(path)}
    before = copy.deepcopy(variable)
    assert rewrite_variable(variable, FACTS) == {"name": "X", "value": value}
    assert variable == before


@pytest.mark.parametrize(
    "variable",
    [
        {"name": "X", "value": "1"},
        {"name": "X"},
        {"name": "X", "valueFrom": field("metadata.name")},
        {"name": "X", "valueFrom": field("metadata.labels['a']")},
        {"name": "X", "valueFrom": field("status.hostIP")},
        {"name": "X", "valueFrom": field("status.podIP")},
        {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ],
)
def test_other_variables_are_left_to_the_remote_kubelet(variable: dict[str, Any]) -> None:
    assert rewrite_variable(variable, FACTS) == variable


def test_files_show_what_home_shows() -> None:
    def items(*paths: str) -> dict[str, Any]:
        return {"items": [{"path": f"f{at}", **field(path)} for at, path in enumerate(paths)]}

    home = items("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels")
    remote = items(
        "metadata.name",
        "metadata.annotations['vkubelet.io/home-namespace']",
        "metadata.labels['vkubelet.io/home-pod-uid']",
        "metadata.labels",
    )
    before = copy.deepcopy(home)
    volume = {"name": "v", "downwardAPI": {"defaultMode": 420, **home}}
    assert rewrite_volume(volume) == {"name": "v", "downwardAPI": {"defaultMode": 420, **remote}}
    projected = {"name": "v", "projected": {"sources": [{"downwardAPI": home}], "defaultMode": 1}}
    assert rewrite_volume(projected) == {
        "name": "v",
        "projected": {"sources": [{"downwardAPI": remote}], "defaultMode": 1},
    }
    assert home == before


@pytest.mark.parametrize(
    "volume",
    [
        {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "v", "downwardAPI": {}},
        {"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}]}},
    ],
)
def test_other_volumes_stay(volume: dict[str, Any]) -> None:
    assert rewrite_volume(volume) == volume
