import copy
from typing import Any

import pytest

from provider.translation.dependents import DependentNames
from provider.translation.references import find_references
from provider.translation.renaming import (
    rename_in_container,
    rename_in_volume,
    rename_pull_secrets,
)
from provider.translation.tokens import ApiAccess
from tests.provider.translation.test_references import PLACES

NAMES = DependentNames("uid-of-home", "cloud", "demo")
RENAMED = [case[0] for case in PLACES if case[1] in ("ConfigMap", "Secret")]


@pytest.mark.parametrize("spec", RENAMED)
def test_every_place_that_names_an_object_names_its_copy(spec: dict[str, Any]) -> None:
    before = copy.deepcopy(spec)
    renamed = {
        "volumes": [
            rename_in_volume(item, NAMES, ApiAccess.NONE) for item in spec.get("volumes", [])
        ],
        "containers": [
            rename_in_container(item, NAMES)
            for item in spec.get("containers", []) + spec.get("initContainers", [])
        ],
    }
    assert spec == before
    (reference,) = find_references(renamed)
    assert reference.name == NAMES.copy(reference.kind, "a")


@pytest.mark.parametrize(
    "volume",
    [
        {"name": "v", "emptyDir": {"medium": "Memory"}},
        {"name": "v", "projected": {"sources": [{"downwardAPI": {"items": []}}], "defaultMode": 1}},
        {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"secretName": "of the driver"}}},
        {"name": "v", "configMap": {"optional": True}},
        {"name": "v", "projected": {"sources": []}},
    ],
)
def test_others_stay_as_they_are(volume: dict[str, Any]) -> None:
    assert rename_in_volume(volume, NAMES, ApiAccess.NONE) == volume


def test_items_modes_and_keys_travel() -> None:
    source = {"name": "a", "items": [{"key": "k", "path": "p", "mode": 256}], "optional": False}
    volume = {"name": "v", "projected": {"sources": [{"configMap": source}], "defaultMode": 292}}
    renamed = rename_in_volume(volume, NAMES, ApiAccess.NONE)
    assert renamed["projected"] == {
        "sources": [{"configMap": {**source, "name": NAMES.copy("ConfigMap", "a")}}],
        "defaultMode": 292,
    }


@pytest.mark.parametrize("kind", ["configMap", "secret"])
def test_a_projection_without_items_stays_without_items(kind: str) -> None:
    """All keys are projected then."""
    volume = {"name": "v", "projected": {"sources": [{kind: {"name": "a"}}]}}
    (source,) = rename_in_volume(volume, NAMES, ApiAccess.NONE)["projected"]["sources"]
    assert source[kind].keys() == {"name"}


def test_pull_secrets() -> None:
    given = [{"name": "a"}, {}]
    assert rename_pull_secrets(given, NAMES) == [{"name": NAMES.copy("Secret", "a")}, {}]


def test_the_remote_clusters_own_certificate_goes_with_its_own_token() -> None:
    root = {"configMap": {"name": "kube-root-ca.crt"}}
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}, root]}}
    assert rename_in_volume(volume, NAMES, ApiAccess.REMOTE) == volume
    alone = {"name": "v", "projected": {"sources": [root]}}
    assert rename_in_volume(alone, NAMES, ApiAccess.REMOTE) != alone
