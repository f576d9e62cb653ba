from typing import Any

import pytest

from provider.translation.dependents import (
    Dependent,
    DependentNames,
    find_dependents,
    read_dependents,
    write_dependents,
)
from provider.translation.tokens import ApiAccess
from vkubelet.kube.names import is_dns_subdomain

NAMES = DependentNames("uid-of-home", "cloud", "demo")


@pytest.mark.parametrize("name", ["settings", "kube-root-ca.crt", "a" * 253, "a." * 126 + "b"])
def test_names_of_copies_are_valid_unique_and_always_the_same(name: str) -> None:
    copy = NAMES.copy("Secret", name)
    assert is_dns_subdomain(copy)
    assert copy == NAMES.copy("Secret", name)
    others = {
        NAMES.copy("ConfigMap", name),
        NAMES.copy("Secret", name[:-1] + "c"),
        DependentNames("uid-of-home", "other", "demo").copy("Secret", name),
        DependentNames("another", "cloud", "demo").copy("Secret", name),
        DependentNames("uid-of-home", "cloud", "demo-2").copy("Secret", name),
        name,
    }
    assert copy not in others
    assert len(others) == 6


def test_names_of_tokens_show_nothing_of_them() -> None:
    name = NAMES.token("uid", "https://a.b/c", 0)
    assert is_dns_subdomain(name)
    assert len({name, NAMES.token("uid", "https://a.b/c", 1), NAMES.token("v", "x", 0)}) == 3


def env(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {kind: {"name": name, "key": "k", **more}}}


def test_each_is_found_once_and_required_if_anything_requires_it() -> None:
    spec = {
        "initContainers": [{"name": "i", "env": [env("configMapKeyRef", "a", optional=True)]}],
        "containers": [
            {"name": "c", "env": [env("configMapKeyRef", "a")]},
            {"name": "d", "env": [env("secretKeyRef", "b", optional=True)]},
        ],
        "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "debug"}}]}],
        "volumes": [{"name": "p", "persistentVolumeClaim": {"claimName": "x"}}],
        "imagePullSecrets": [{"name": "registry"}, {"name": "b"}, {}],
    }
    assert find_dependents(spec, ApiAccess.NONE) == (
        Dependent("ConfigMap", "a"),
        Dependent("Secret", "b", required=False),
        Dependent("Secret", "debug", required=False),
        Dependent("Secret", "registry", required=False, pulls=True),
    )


@pytest.mark.parametrize(
    ("access", "names"),
    [
        (ApiAccess.NONE, []),
        (ApiAccess.HOME, ["kube-root-ca.crt"]),
        (ApiAccess.REMOTE, []),
    ],
)
def test_the_certificate_that_goes_with_a_token(access: ApiAccess, names: list[str]) -> None:
    sources = [{"serviceAccountToken": {}}, {"configMap": {"name": "kube-root-ca.crt"}}]
    spec = {"volumes": [{"name": "v", "projected": {"sources": sources}}]}
    assert [item.name for item in find_dependents(spec, access)] == names
    alone = {"volumes": [{"name": "v", "projected": {"sources": sources[1:]}}]}
    assert [item.name for item in find_dependents(alone, access)] == ["kube-root-ca.crt"]


def test_what_is_needed_is_written_down_and_read_again() -> None:
    text = write_dependents([Dependent("ConfigMap", "a.b"), Dependent("Secret", "c")])
    assert text == "ConfigMap/a.b,Secret/c"
    assert read_dependents(text) == {("ConfigMap", "a.b"), ("Secret", "c")}
    assert read_dependents("") == frozenset()
    assert read_dependents("Pod/x,Secret/,nonsense,Secret/a") == {("Secret", "a")}


def test_they_are_called_as_the_kubelet_calls_them() -> None:
    assert str(Dependent("ConfigMap", "x")) == 'configmap "x"'
