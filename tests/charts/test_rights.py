"""The charts and docs/rbac grant exactly what the process asks for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from provider.app import list_home_rights
from provider.checkup.access import metrics_rights
from provider.config import NamespaceConfig, ServingConfig
from provider.rights import (
    dependent_rights,
    remote_rights,
    removal_rights_at_home,
    removal_rights_in_remote,
)
from tests.charts.rendering import HOME, LEAST, NAMESPACE, REMOTE, find, is_hook, merge, render
from tests.charts.rules import Grant, as_grants, read_grants
from vkubelet.kube.objects import NamespacedName

RBAC = Path(__file__).parents[2] / "docs" / "rbac"

BY_BUILT_IN_ROLE = {
    Grant(verb, "/configmaps", "kube-system", "extension-apiserver-authentication")
    for verb in ("list", "watch")
}
METRICS = as_grants(metrics_rights())
"""Wanted, not needed: without it `kubectl top` knows nothing."""


def needed_at_home(values: Mapping[str, Any], namespace: str = NAMESPACE) -> set[Grant]:
    config = values["config"]
    namespaces = NamespaceConfig.model_validate(config["namespaces"])
    serving = ServingConfig.model_validate(config.get("kubelet", {}))
    lock = NamespacedName(
        config.get("home", {}).get("systemNamespace", namespace), "vkubelet-cloud"
    )
    rights = list_home_rights(namespaces, serving, lock)
    tokens = config.get("pods", {}).get("apiAccess") == "home"
    rights += removal_rights_at_home(namespaces.names if namespaces.all_named else ())
    for name in namespaces.names if namespaces.all_named else ("",):
        rights += dependent_rights(name, tokens=tokens)
    return as_grants(rights) - BY_BUILT_IN_ROLE


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"namespaces": {"names": ["demo", "other"]}},
        {"namespaces": {"names": ["*"]}},
        {"namespaces": {"names": [], "selector": "team=a"}},
        {"namespaces": {"selector": "team=a"}},
        {"kubelet": {"approveCsr": True}},
        {"kubelet": {"approveCsr": True, "signerName": "example.com/nodes"}},
        {"kubelet": {"certificates": "self-signed"}},
        {"pods": {"apiAccess": "home", "homeApiServer": "api.example:6443"}},
        {"home": {"systemNamespace": "locks"}},
    ],
    ids=str,
)
def test_at_home(config: dict[str, Any]) -> None:
    values = merge(LEAST, {"config": config})
    objects = [found for found in render(HOME, values) if not is_hook(found)]
    assert read_grants(objects, "vkubelet-cloud") == needed_at_home(values)
    binding = find(objects, "RoleBinding", "vkubelet-cloud-client-ca", "kube-system")
    assert binding["roleRef"]["name"] == "extension-apiserver-authentication-reader"


def test_without_dependents() -> None:
    values = merge(LEAST, {"rbac": {"dependents": False}})
    grants = read_grants(render(HOME, values), "vkubelet-cloud")
    assert needed_at_home(LEAST) - grants == as_grants(dependent_rights("demo", tokens=False))


def test_none_at_all() -> None:
    values = merge(LEAST, {"rbac": {"create": False}, "teardownOnUninstall": True})
    kinds = {found["kind"] for found in render(HOME, values)}
    assert not kinds & {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}


@pytest.mark.parametrize("namespaces", [(), ("a", "b")])
def test_in_the_remote_cluster(namespaces: tuple[str, ...]) -> None:
    objects = render(REMOTE, {"peering": "cloud", "namespaces": list(namespaces)})
    grants = read_grants(objects, "vkubelet-remote-cloud")
    metrics = {grant for grant in grants if grant.resource.startswith("metrics.k8s.io/")}
    assert {grant._replace(namespace="") for grant in metrics} == METRICS
    assert grants - metrics == as_grants(remote_rights(namespaces))


def test_the_documented_roles_are_enough_for_everything() -> None:
    objects = list(yaml.safe_load_all((RBAC / "home.yaml").read_text()))
    granted = read_grants(objects, "vkubelet")
    kubelet = {"approveCsr": True}
    everything = {"namespaces": {"names": ["*"], "selector": "a=b"}, "kubelet": kubelet}
    values = merge(LEAST, {"config": everything})
    needed = needed_at_home(values, "kube-system") - as_grants(dependent_rights("", tokens=False))
    # Which peerings there will be isn't known there.
    needed = {grant._replace(name="") if "leases" in grant.resource else grant for grant in needed}
    assert granted == needed


def test_the_documented_role_of_a_namespace() -> None:
    (role, binding) = yaml.safe_load_all((RBAC / "home-namespace.yaml").read_text())
    granted = read_grants([role, binding], "vkubelet")
    assert granted == as_grants(dependent_rights("", tokens=True))


def test_the_documented_roles_of_the_remote_cluster() -> None:
    objects = list(yaml.safe_load_all((RBAC / "remote.yaml").read_text()))
    assert read_grants(objects, "vkubelet") - METRICS == as_grants(remote_rights())


def test_the_documented_role_that_lets_namespaces_be_removed() -> None:
    objects = list(yaml.safe_load_all((RBAC / "remote-removal.yaml").read_text()))
    wanted = as_grants(removal_rights_in_remote())
    assert read_grants(objects, "vkubelet") == wanted
    granted = read_grants(
        render(REMOTE, {"peering": "cloud", "teardown": True}), "vkubelet-remote-cloud"
    )
    assert wanted <= granted


def test_the_documented_roles_of_a_remote_namespace() -> None:
    objects = list(yaml.safe_load_all((RBAC / "remote-namespace.yaml").read_text()))
    granted = read_grants(objects, "vkubelet")
    metrics = {grant for grant in granted if grant.resource.startswith("metrics.k8s.io/")}
    assert metrics <= METRICS
    needed = as_grants(remote_rights(["tenant"]))
    assert granted - metrics == {grant._replace(namespace="", name="") for grant in needed}


def test_teardown_has_the_documented_rights() -> None:
    values = merge(LEAST, {"teardownOnUninstall": True})
    mine = read_grants(render(HOME, values), "vkubelet-cloud-teardown")
    documented = read_grants(
        yaml.safe_load_all((RBAC / "teardown-home.yaml").read_text()), "vkubelet-teardown"
    )
    assert {grant._replace(name="", namespace="") for grant in mine} == {
        grant._replace(name="", namespace="") for grant in documented
    }
    remote = read_grants(
        render(REMOTE, {"peering": "cloud", "teardown": True}), "vkubelet-remote-cloud"
    )
    wanted = read_grants(
        yaml.safe_load_all((RBAC / "teardown-remote.yaml").read_text()), "vkubelet-teardown"
    )
    assert wanted <= remote
