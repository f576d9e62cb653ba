"""Restarts of lost remote pods."""

import pytest

from provider.labels import RESTARTS
from provider.translation.restarts import note_restarts, read_restarts
from vkubelet.kube.objects import KubeObject

REMOTE: KubeObject = {"metadata": {"annotations": {"a": "b"}}, "spec": {}}


def build_home(count: int) -> KubeObject:
    return {
        "status": {
            "initContainerStatuses": [{"name": "sidecar", "restartCount": 1 if count else 0}],
            "containerStatuses": [{"name": "main", "restartCount": count}],
        }
    }


def test_what_is_noted_is_read() -> None:
    noted = note_restarts(REMOTE, build_home(3))
    assert read_restarts(noted["metadata"]) == {"sidecar": 1, "main": 3}
    assert noted["metadata"]["annotations"]["a"] == "b"
    assert REMOTE["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize("home", [{}, {"status": None}, build_home(0)])
def test_nothing_is_noted_of_none(home: KubeObject) -> None:
    assert note_restarts(REMOTE, home) == REMOTE


@pytest.mark.parametrize("note", ["nonsense", "[]", '{"main": "3"}'])
def test_a_note_that_makes_no_sense_is_none(note: str) -> None:
    assert read_restarts({"annotations": {RESTARTS: note}}) == {}


def test_no_annotations_at_all() -> None:
    assert read_restarts({}) == {}
