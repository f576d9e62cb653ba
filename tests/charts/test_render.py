"""What Helm makes of the charts."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from provider.checkup.servers import OLDEST_VERSION
from provider.config import Config
from provider.configuration import load_config
from provider.labels import HOME_CLUSTER, PEERING
from provider.lock import find_lock_key
from tests.charts.rendering import (
    HOME,
    LEAST,
    NAMESPACE,
    REMOTE,
    find,
    is_hook,
    merge,
    render,
    run_helm,
    template,
)
from vkubelet import __version__


@pytest.mark.parametrize("chart", [HOME, REMOTE])
def test_versions_are_the_projects(chart: Path) -> None:
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == __version__
    assert about["kubeVersion"] == f">={'.'.join(map(str, OLDEST_VERSION))}.0-0"


@pytest.mark.parametrize(
    ("chart", "values"),
    [
        (HOME, LEAST),
        (HOME, merge(LEAST, {"teardownOnUninstall": True, "dashboard": {"enabled": True}})),
        (REMOTE, {"peering": "cloud"}),
        (REMOTE, {"peering": "cloud", "namespaces": ["a"], "resourceQuota": {"hard": {"cpu": 1}}}),
    ],
)
def test_lint(chart: Path, values: dict[str, Any]) -> None:
    done = run_helm("lint", str(chart), "--strict", "--kube-version=1.37.2", values=values)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout
    assert "[ERROR]" not in done.stdout


def read_configuration(objects: list[dict[str, Any]], folder: Path) -> Config:
    data = find(objects, "ConfigMap", "vkubelet-cloud", NAMESPACE)["data"]["config.yaml"]
    file = folder / "config.yaml"
    file.write_text(data)
    return load_config(Config, file=file, environment={"POD_IP": "192.0.2.1"}, flags={})


def test_the_process_takes_the_configuration(tmp_path: Path) -> None:
    config = {
        "nodes": {"mapping": "label", "mappingLabel": "zone", "tolerate": ["gpu:NoSchedule"]},
        "capacity": {"percent": 50, "limits": ["cpu=8"]},
        "kubelet": {"ports": "20000-20009", "approveCsr": True},
        "process": {"logLevel": "debug"},
    }
    objects = render(HOME, merge(LEAST, {"config": config, "healthPort": 9090}))
    loaded = read_configuration(objects, tmp_path)
    assert str(loaded.remote.kubeconfig) == "/etc/vkubelet/remote/kubeconfig"
    assert (loaded.process.health_address.port, str(loaded.process.data_dir)) == (
        9090,
        "/var/lib/vkubelet",
    )
    assert loaded.process.log_level == "debug"
    assert (loaded.capacity.percent, loaded.nodes.mapping_label) == (50, "zone")
    (container,) = find(objects, "Deployment", "vkubelet-cloud", NAMESPACE)["spec"]["template"][
        "spec"
    ]["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {
        "health": 9090,
        "kubelet": 20000,
    }
    (kubelet, health) = find(objects, "NetworkPolicy", "vkubelet-cloud", NAMESPACE)["spec"][
        "ingress"
    ]
    assert kubelet["ports"] == [{"protocol": "TCP", "port": 20000, "endPort": 20009}]
    assert "from" not in health


def test_the_pod() -> None:
    objects = render(HOME, LEAST)
    deployment = find(objects, "Deployment", "vkubelet-cloud", NAMESPACE)["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["strategy"] == {"type": "Recreate"}
    assert container["image"] == f"vkubelet:{__version__}"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}
    ]
    assert pod["priorityClassName"] == "vkubelet-cloud"
    assert all(
        "subPath" not in mount for mount in container["volumeMounts"] if mount["name"] == "remote"
    )


def test_a_change_of_the_configuration_makes_a_new_pod() -> None:
    def checksum(values: dict[str, Any]) -> str:
        deployment = find(render(HOME, values), "Deployment", "vkubelet-cloud", NAMESPACE)
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    before = checksum(dict(LEAST))
    assert checksum(merge(LEAST, {"resources": {"limits": {"memory": "1Gi"}}})) == before
    assert checksum(merge(LEAST, {"config": {"process": {"logLevel": "debug"}}})) != before


@pytest.mark.parametrize("release", ["123", "true", "a" * 53, "1e3"])
def test_names_come_from_the_peering_whatever_the_release_is_called(release: str) -> None:
    objects = render(HOME, LEAST, release=release)
    for found in objects:
        assert found["metadata"]["name"].startswith("vkubelet-cloud")
        assert found["metadata"]["labels"]["app.kubernetes.io/instance"] == release


def test_a_long_name_is_cut() -> None:
    cluster = "x" * 63
    objects = render(HOME, merge(LEAST, {"config": {"remote": {"cluster": cluster}}}))
    names = {found["metadata"]["name"] for found in objects if found["kind"] == "Deployment"}
    (name,) = names
    assert len(name) <= 63
    assert re.fullmatch(r"vkubelet-x{36}-[0-9a-f]{8}", name)
    role = find(objects, "Role", f"{name}-lock", NAMESPACE)
    assert role["rules"][1]["resourceNames"] == [find_lock_key(NAMESPACE, cluster).name]


@pytest.mark.parametrize(
    ("nodes", "good", "bad"),
    [
        ({}, ["cloud", "cloud-0", "cloud-a.b"], ["other", "xcloud", "cloudx"]),
        ({"name": "far.away"}, ["far.away", "far.away-1"], ["farxaway", "far.away-x"]),
        (
            {"mapping": "selector", "virtualNodes": ["gpu=a=b", "cpu=!a"]},
            ["gpu", "gpu-2", "cpu"],
            ["gpu-x", "tpu"],
        ),
        ({"mapping": "per-node"}, ["cloud-n1"], ["n1"]),
        ({"mapping": "label", "mappingLabel": "zone", "namePrefix": "z."}, ["z.a"], ["zxa", "z."]),
    ],
    ids=str,
)
def test_names_of_nodes_that_the_policy_lets_through(
    nodes: dict[str, Any], good: list[str], bad: list[str]
) -> None:
    objects = render(HOME, merge(LEAST, {"config": {"nodes": nodes}}))
    policy = find(objects, "ValidatingAdmissionPolicy", "vkubelet-cloud-pods")
    names = next(item for item in policy["spec"]["variables"] if item["name"] == "names")
    patterns = yaml.safe_load(names["expression"])
    assert all(any(re.search(pattern, name) for pattern in patterns) for name in good)
    assert not any(re.search(pattern, name) for pattern in patterns for name in bad)


@pytest.mark.parametrize(
    "nodes", [{"mapping": "per-node", "exactNames": True}, {"mapping": "mine"}]
)
def test_names_that_do_not_follow_have_to_be_given(nodes: dict[str, Any]) -> None:
    values = merge(LEAST, {"config": {"nodes": nodes}})
    done = template(HOME, values)
    assert done.returncode != 0
    assert "admissionPolicy.nodeNames is needed" in done.stderr
    assert template(HOME, merge(values, {"admissionPolicy": {"enabled": False}})).returncode == 0
    objects = render(HOME, merge(values, {"admissionPolicy": {"nodeNames": ["node-[0-9]+"]}}))
    policy = find(objects, "ValidatingAdmissionPolicy", "vkubelet-cloud-nodes")
    assert "^(node-[0-9]+)$" in policy["spec"]["variables"][0]["expression"]


def test_hooks_only_if_asked_for() -> None:
    def hooks(**values: Any) -> set[str]:
        return {
            found["metadata"]["annotations"]["helm.sh/hook"]
            for found in render(HOME, merge(LEAST, values))
            if is_hook(found)
        }

    assert hooks() == {"test"}
    assert hooks(teardownOnUninstall=True) == {"test", "post-delete"}


def test_monitors_and_dashboard() -> None:
    values = {
        "podMonitor": {"enabled": True},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True},
    }
    objects = render(HOME, merge(LEAST, values))
    monitor = find(objects, "ServiceMonitor", "vkubelet-cloud", NAMESPACE)
    service = find(objects, "Service", "vkubelet-cloud", NAMESPACE)
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    assert selected <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    pod = find(objects, "Deployment", "vkubelet-cloud", NAMESPACE)["spec"]["template"]
    watcher = find(objects, "PodMonitor", "vkubelet-cloud", NAMESPACE)["spec"]["selector"]
    assert watcher["matchLabels"].items() <= pod["metadata"]["labels"].items()
    dashboard = find(objects, "ConfigMap", "vkubelet-cloud-dashboard", NAMESPACE)
    assert yaml.safe_load(dashboard["data"]["vkubelet.json"])["title"] == "vkubelet"
    assert {found["kind"] for found in render(HOME, LEAST)} & {"ServiceMonitor", "Service"} == set()


def test_what_the_policies_of_the_remote_chart_look_at_is_what_the_process_writes() -> None:
    objects = render(REMOTE, {"peering": "cloud"})
    policy = find(objects, "ValidatingAdmissionPolicy", "vkubelet-remote-cloud-objects")
    text = str(policy["spec"]["validations"])
    assert HOME_CLUSTER in text
    assert PEERING in text


def test_remote_namespaces() -> None:
    uid = "0" * 36
    values = {
        "peering": "cloud",
        "namespaces": ["a", "b"],
        "homeClusterUID": uid,
        "podSecurity": "restricted",
        "resourceQuota": {"hard": {"pods": "10"}},
    }
    objects = render(REMOTE, values)
    labels = find(objects, "Namespace", "a")["metadata"]["labels"]
    assert labels[HOME_CLUSTER] == uid
    assert labels[PEERING] == "cloud"
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert find(objects, "ResourceQuota", "vkubelet-remote-cloud", "b")["spec"] == {
        "hard": {"pods": "10"}
    }
    made = render(REMOTE, merge(values, {"createNamespaces": False}))
    assert all(found["kind"] != "Namespace" for found in made)
