"""What of a remote pod is changed: what home changed, and nothing else."""

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from provider.labels import APPLIED, HOME_GENERATION
from provider.translation.changes import (
    PodChanges,
    find_changes,
    is_placed_otherwise,
    note_applied,
    read_applied,
)
from tests.fakes.api_objects import strategic_merge
from vkubelet.kube.objects import KubeObject

NOTHING = PodChanges(None, None, None)


def build_wanted(**spec: Any) -> KubeObject:
    """A remote pod as it is to be made."""
    pod: KubeObject = {
        "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": {"note": "x"}},
        "spec": {
            "initContainers": [{"name": "init", "image": "init:1"}],
            "containers": [
                {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}},
                {"name": "side", "image": "side:1"},
            ],
            **spec,
        },
    }
    note_applied(pod)
    return pod


def change(pod: KubeObject, **spec: Any) -> KubeObject:
    """The same as home has it later."""
    changed = copy.deepcopy(pod)
    changed["spec"] |= spec
    del changed["metadata"]["annotations"][APPLIED]
    note_applied(changed)
    return changed


def make(wanted: KubeObject, **spec: Any) -> KubeObject:
    """The remote pod that was made of it, with what the API server and others have added."""
    existing = copy.deepcopy(wanted)
    existing["metadata"]["uid"] = "remote-uid"
    existing["metadata"]["labels"]["webhook"] = "label"
    existing["metadata"]["annotations"]["webhook"] = "annotation"
    existing["spec"] |= {"dnsPolicy": "ClusterFirst", "nodeName": "n", **spec}
    existing["spec"]["containers"].append({"name": "injected", "image": "mesh:1"})
    existing["spec"]["tolerations"] = [
        *existing["spec"].get("tolerations", []),
        {"key": "added", "operator": "Exists"},
    ]
    return existing


def patched(existing: KubeObject, changes: PodChanges) -> KubeObject:
    for patch in (changes.pod, changes.ephemeral_containers, changes.resize):
        if patch is not None:
            existing = strategic_merge(existing, patch)
    return existing


def image_of(pod: KubeObject, name: str) -> str:
    (container,) = [item for item in pod["spec"]["containers"] if item["name"] == name]
    return str(container["image"])


def test_what_was_made_needs_no_change() -> None:
    wanted = build_wanted(activeDeadlineSeconds=10, tolerations=[{"key": "a"}])
    assert find_changes(make(wanted), wanted, ()) == NOTHING


def test_images_travel_to_their_containers() -> None:
    before = build_wanted()
    after = change(
        before,
        initContainers=[{"name": "init", "image": "init:2"}],
        containers=[{"name": "main", "image": "web:2"}, {"name": "side", "image": "side:1"}],
    )
    changes = find_changes(make(before), after, ())
    assert changes.pod is not None
    assert changes.pod["spec"] == {
        "initContainers": [{"name": "init", "image": "init:2"}],
        "containers": [{"name": "main", "image": "web:2"}],
    }
    assert changes.pod["metadata"]["uid"] == "remote-uid"
    there = patched(make(before), changes)
    assert image_of(there, "main") == "web:2"
    assert image_of(there, "injected") == "mesh:1"
    assert find_changes(there, after, ()) == NOTHING


def test_image_that_a_webhook_rewrote_stays() -> None:
    wanted = build_wanted()
    existing = make(wanted)
    existing["spec"]["containers"][0]["image"] = "mirror/web@sha256:1"
    assert find_changes(existing, wanted, ()) == NOTHING


def test_image_that_is_there_already_is_not_written() -> None:
    before = build_wanted()
    existing = make(before)
    existing["spec"]["containers"][0]["image"] = "web:2"
    containers = [{"name": "main", "image": "web:2"}, {"name": "side", "image": "side:1"}]
    changes = find_changes(existing, change(before, containers=containers), ())
    assert changes.pod is not None
    assert "spec" not in changes.pod
    assert list(changes.pod["metadata"]["annotations"]) == [APPLIED]


def test_labels_and_annotations_of_others_stay() -> None:
    before = build_wanted()
    after = build_wanted()
    after["metadata"] |= {"labels": {"tier": "b"}, "annotations": {}}
    note_applied(after)
    changes = find_changes(make(before), after, ())
    assert changes.pod is not None
    assert changes.pod["metadata"]["labels"] == {"tier": "b", "app": None}
    assert changes.pod["metadata"]["annotations"]["note"] is None
    there = patched(make(before), changes)
    assert there["metadata"]["labels"] == {"tier": "b", "webhook": "label"}
    assert there["metadata"]["annotations"].keys() == {APPLIED, "webhook"}
    assert find_changes(there, after, ()) == NOTHING


def test_label_that_others_changed_is_restored() -> None:
    wanted = build_wanted()
    existing = make(wanted)
    existing["metadata"]["labels"]["app"] = "hijacked"
    assert patched(existing, find_changes(existing, wanted, ()))["metadata"]["labels"] == {
        "app": "web",
        "webhook": "label",
    }


@pytest.mark.parametrize("text", [None, "", "nonsense", "[]", '{"labels": 1}'])
def test_pod_of_which_is_not_known_what_was_asked_for_keeps_what_it_has(text: str | None) -> None:
    wanted = build_wanted()
    existing = make(wanted)
    annotations = existing["metadata"]["annotations"]
    del annotations[APPLIED]
    if text is not None:
        annotations[APPLIED] = text
    assert read_applied(existing) is None
    changes = find_changes(existing, wanted, ())
    assert changes.pod is not None
    assert "spec" not in changes.pod
    assert find_changes(patched(existing, changes), wanted, ()) == NOTHING
    containers = [{"name": "main", "image": "web:2"}, {"name": "side", "image": "side:1"}]
    changes = find_changes(existing, change(wanted, containers=containers), ())
    assert changes.pod is not None
    assert changes.pod["spec"]["containers"] == [{"name": "main", "image": "web:2"}]


@pytest.mark.parametrize(
    ("there", "asked", "written"),
    [
        (None, 60, True),
        (60, 30, True),
        (30, 60, False),  # the API refuses more
        (60, 60, False),
        (60, None, False),
        (None, None, False),
    ],
)
def test_deadline_becomes_only_shorter(
    there: int | None, asked: int | None, *, written: bool
) -> None:
    before = build_wanted() if there is None else build_wanted(activeDeadlineSeconds=there)
    after = build_wanted() if asked is None else build_wanted(activeDeadlineSeconds=asked)
    changes = find_changes(make(before), after, ())
    assert (changes.pod is not None) is written
    if changes.pod is not None:
        assert changes.pod["spec"] == {"activeDeadlineSeconds": asked}


def test_tolerations_are_only_added() -> None:
    before = build_wanted(tolerations=[{"key": "a", "operator": "Equal", "value": "1"}])
    after = build_wanted(tolerations=[{"key": "b", "operator": "Exists"}])
    changes = find_changes(make(before), after, ())
    assert changes.pod is not None
    assert [item["key"] for item in changes.pod["spec"]["tolerations"]] == ["a", "added", "b"]
    same = build_wanted(tolerations=[{"key": "a", "value": "1"}])
    assert find_changes(make(before), same, ()) == NOTHING


def test_ephemeral_containers_are_only_added() -> None:
    wanted = build_wanted()
    existing = make(wanted, ephemeralContainers=[{"name": "first", "image": "i"}])
    debuggers = [{"name": "first", "image": "other"}, {"name": "second", "image": "i"}]
    changes = find_changes(existing, wanted, debuggers)
    assert changes.pod is None
    assert changes.ephemeral_containers == {
        "metadata": {"uid": "remote-uid"},
        "spec": {"ephemeralContainers": [{"name": "second", "image": "i"}]},
    }
    assert find_changes(patched(existing, changes), wanted, debuggers) == NOTHING


def test_resources_travel_by_resize() -> None:
    before = build_wanted()
    existing = make(before)
    existing["spec"]["containers"][0]["resources"]["limits"] = {"memory": "1Gi"}  # a LimitRange
    requests = {"cpu": "2", "memory": "64Mi", "example.com/gpu": "1"}
    containers = [
        {"name": "main", "image": "web:1", "resources": {"requests": requests}},
        {"name": "side", "image": "side:1"},
    ]
    after = change(before, containers=containers)
    changes = find_changes(existing, after, ())
    assert changes.pod is None
    assert changes.resize == {
        "metadata": {"uid": "remote-uid"},
        "spec": {
            "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "2", "memory": "64Mi"}}}
            ]
        },
    }
    assert find_changes(patched(existing, changes), after, ()) == NOTHING


def test_resources_of_the_pod_and_of_sidecars_travel_too() -> None:
    before = build_wanted(resources={"requests": {"cpu": "1"}})
    sidecar = {"name": "init", "image": "init:1", "resources": {"limits": {"cpu": "500m"}}}
    after = change(before, resources={"requests": {"cpu": "2"}}, initContainers=[sidecar])
    changes = find_changes(make(before), after, ())
    assert changes.resize is not None
    assert changes.resize["spec"] == {
        "resources": {"requests": {"cpu": "2"}},
        "initContainers": [{"name": "init", "resources": {"limits": {"cpu": "500m"}}}],
    }


def test_quantities_are_compared_by_their_value() -> None:
    before = build_wanted()
    containers = [
        {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1000m"}}},
        {"name": "side", "image": "side:1"},
    ]
    assert find_changes(make(before), change(before, containers=containers), ()) == NOTHING


def test_waiting_pod_is_placed_otherwise_when_its_nodes_change() -> None:
    before = build_wanted(nodeSelector={"zone": "a"})
    after = build_wanted(nodeSelector={"zone": "b"})
    waiting = make(before)
    del waiting["spec"]["nodeName"]
    assert is_placed_otherwise(waiting, after)
    assert not is_placed_otherwise(waiting, before)
    assert not is_placed_otherwise(make(before), after), "it runs: it stays"
    del waiting["metadata"]["annotations"][APPLIED]
    assert not is_placed_otherwise(waiting, after), "nobody knows what it was made with"


TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from("abc"), "operator": st.just("Exists")},
        optional={"effect": st.sampled_from(["NoSchedule", "NoExecute"])},
    ),
    max_size=3,
)
PODS = st.builds(
    lambda labels, images, cpus, deadline, tolerations: (
        labels,
        {
            "containers": [
                {"name": name, "image": image, "resources": {"requests": {"cpu": cpu}}}
                for name, image, cpu in zip(("main", "side"), images, cpus, strict=True)
            ],
            "tolerations": tolerations,
            **({"activeDeadlineSeconds": deadline} if deadline else {}),
        },
    ),
    st.dictionaries(st.sampled_from(["app", "tier", "webhook"]), st.sampled_from("xyz")),
    st.tuples(*[st.sampled_from(["i:1", "i:2"])] * 2),
    st.tuples(*[st.sampled_from(["1", "1000m", "2"])] * 2),
    st.none() | st.integers(1, 3),
    TOLERATIONS,
)


@given(st.lists(PODS, min_size=2, max_size=4))
def test_one_round_of_patches_is_enough(versions: list[tuple[dict[str, str], KubeObject]]) -> None:
    pods = []
    for labels, spec in versions:
        pod: KubeObject = {
            "metadata": {"labels": labels, "annotations": {}},
            "spec": copy.deepcopy(spec),
        }
        note_applied(pod)
        pods.append(pod)
    existing = make(pods[0])
    for wanted in pods[1:]:
        existing = patched(existing, find_changes(existing, wanted, ()))
        assert find_changes(existing, wanted, ()) == NOTHING
        assert wanted["metadata"]["labels"].items() <= existing["metadata"]["labels"].items()
        assert image_of(existing, "main") == wanted["spec"]["containers"][0]["image"]


def test_without_the_generation_all_else_stays() -> None:
    uid = {"uid": "1"}
    only: KubeObject = {"metadata": {**uid, "annotations": {HOME_GENERATION: "2"}}}
    assert PodChanges(only, None, None).pod_without_generation is None
    assert PodChanges(None, None, None).pod_without_generation is None
    more = {
        "metadata": {**uid, "annotations": {HOME_GENERATION: "2", "a": "b"}},
        "spec": {"activeDeadlineSeconds": 1},
    }
    assert PodChanges(more, None, None).pod_without_generation == {
        "metadata": {**uid, "annotations": {"a": "b"}},
        "spec": {"activeDeadlineSeconds": 1},
    }
    spec = {"metadata": {**uid, "annotations": {HOME_GENERATION: "2"}}, "spec": {"x": 1}}
    assert PodChanges(spec, None, None).pod_without_generation == {
        "metadata": uid,
        "spec": {"x": 1},
    }
