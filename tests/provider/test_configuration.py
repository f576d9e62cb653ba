"""File < environment < flags, and one clear line for whatever is wrong."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from provider.config import Config, HomeTeardownConfig, PlanConfig, config_fields
from provider.configuration import load_config, unknown_variables
from provider.errors import ConfigError
from vkubelet.config import UnreachableAction

FLAGS: Mapping[str, Any] = {
    "--remote-cluster": "cloud",
    "--remote-kubeconfig": "remote.kubeconfig",
    "--namespace": ["demo"],
    "--kubelet-address": "192.0.2.1",
}


def load(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None, file: Path | None = None
) -> Config:
    return load_config(Config, file=file, environment=environment or {}, flags=flags)


def write(folder: Path, text: str) -> Path:
    file = folder / "config.yaml"
    file.write_text(text)
    return file


def without(flag: str) -> dict[str, Any]:
    return {name: value for name, value in FLAGS.items() if name != flag}


def test_the_least_that_is_needed() -> None:
    config = load(FLAGS)
    assert config.remote.cluster == "cloud"
    assert config.namespaces.names == ("demo",)
    assert config.nodes.mapping == "cluster"
    assert config.remote.unreachable is UnreachableAction.EVICT
    assert str(config.kubelet.ports) == "10250-10549"


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "remote: {cluster: from-file, kubeconfig: from-file, context: from-file}\n"
        "namespaces: {names: [a]}\nkubelet: {address: 192.0.2.9}\n",
    )
    environment = {"VKUBELET_REMOTE_KUBECONFIG": "from-env", "VKUBELET_REMOTE_CLUSTER": "from-env"}
    config = load({"--remote-cluster": "from-flag"}, environment, file)
    assert config.remote.cluster == "from-flag"
    assert config.remote.kubeconfig == Path("from-env")
    assert config.remote.context == "from-file"
    assert config.kubelet.address == "192.0.2.9"


def test_a_repeatable_variable_holds_several_values() -> None:
    config = load(without("--namespace"), {"VKUBELET_NAMESPACE": "a; b"})
    assert config.namespaces.names == ("a", "b")


def test_the_address_is_the_pods_own_unless_given() -> None:
    config = load(without("--kubelet-address"), {"POD_IP": "192.0.2.7"})
    assert config.kubelet.address == "192.0.2.7"


def test_a_switch_from_the_environment() -> None:
    assert load(FLAGS, {"VKUBELET_APPROVE_CSR": "true"}).kubelet.approve_csr


BAD_FLAGS: list[tuple[dict[str, Any], str]] = [
    ({"--remote-cluster": "Bad_Name"}, "--remote-cluster: 'Bad_Name' is not a DNS label"),
    ({"--namespace": ["A"]}, "--namespace: 'A' is not a DNS label"),
    ({"--namespace-selector": "a in b"}, "--namespace-selector: "),
    ({"--node-selector": "a in b"}, "--node-selector: "),
    (
        {"--virtual-node": ["gpu"], "--node-mapping": "selector"},
        "--virtual-node: 'gpu' is not NAME=SELECTOR",
    ),
    (
        {"--virtual-node": ["a=b=1", "a=c=1"], "--node-mapping": "selector"},
        "--virtual-node a is given twice",
    ),
    ({"--virtual-node": ["a=b=1"]}, "--virtual-node goes with --node-mapping selector only"),
    ({"--node-mapping": "selector"}, "--virtual-node is required with --node-mapping selector"),
    ({"--node-mapping": "label"}, "--mapping-label is required with --node-mapping label"),
    ({"--mapping-label": "zone"}, "--mapping-label goes with --node-mapping label only"),
    ({"--mapping-label": "a b", "--node-mapping": "label"}, "--mapping-label: 'a b' is not a "),
    (
        {"--node-mapping": "per-node", "--exact-node-names": True, "--node-name-prefix": "x-"},
        "--exact-node-names and --node-name-prefix exclude each other",
    ),
    ({"--exact-node-names": True}, "--exact-node-names goes with --node-mapping label or per-node"),
    ({"--node-name-prefix": "x-"}, "--node-name-prefix goes with --node-mapping label or per-node"),
    (
        {"--node-mapping": "per-node", "--node-name-prefix": "X_"},
        "--node-name-prefix: 'X_' can't begin the name of a node",
    ),
    ({"--node-mapping": "per-node", "--node-name": "a"}, "--node-name goes with --node-mapping cl"),
    (
        {"--node-mapping": "per-node", "--node-name-prefix": ""},
        "--node-name-prefix: an empty prefix is --exact-node-names",
    ),
    ({"--max-nodes-per-virtual-node": "0"}, "--max-nodes-per-virtual-node: must be greater than"),
    (
        {"--max-nodes-per-virtual-node": "many"},
        "--max-nodes-per-virtual-node: must be a valid integer, not 'many'",
    ),
    ({"--capacity-percent": "0"}, "--capacity-percent: must be greater than or equal to 1, not"),
    ({"--capacity-percent": "150"}, "--capacity-percent: must be less than or equal to 100, not"),
    ({"--capacity-limit": ["cpu"]}, "--capacity-limit: 'cpu' is not RESOURCE=QUANTITY"),
    ({"--capacity-limit": ["cpu=x"]}, "--capacity-limit: 'x' is not a quantity"),
    ({"--capacity-limit": ["cpu=-1"]}, "--capacity-limit: 'cpu=-1': a limit can't be negative"),
    ({"--capacity-limit": ["cpu=1", "cpu=2"]}, "--capacity-limit cpu is given twice"),
    ({"--node-label-exclude": ["a b/*"]}, "--node-label-exclude: 'a b/*' is not a label key"),
    ({"--foreign-use": "count"}, "--foreign-use: must be 'watch' or 'ignore', not 'count'"),
    ({"--kubelet-ports": "10250"}, "--kubelet-ports: '10250' is not FROM-TO"),
    ({"--kubelet-ports": "9-1"}, "--kubelet-ports: '9-1': ports go from 1 to 65535"),
    ({"--kubelet-ports": "0-1"}, "--kubelet-ports: '0-1': ports go from 1 to 65535"),
    ({"--kubelet-address": "host"}, "--kubelet-address: 'host' is not an IP address"),
    ({"--health-address": "80"}, "--health-address: '80' is not [HOST]:PORT"),
    ({"--node-taint": ["a=b"]}, "--node-taint: 'a=b' is not KEY[=VALUE]:EFFECT"),
    ({"--tolerate": ["a:Never"]}, "--tolerate: 'a:Never' is not KEY[=VALUE][:EFFECT]"),
    ({"--node-label": ["a"]}, "--node-label: 'a' is not KEY=VALUE"),
    ({"--remote-namespace": "{name}"}, "--remote-namespace: '{name}' has the unknown field {name}"),
    ({"--remote-namespace": "{namespace"}, "--remote-namespace: '{namespace' is not a template"),
    (
        {"--remote-namespace": "{namespace:.5}"},
        "--remote-namespace: '{namespace:.5}': fields stand",
    ),
    ({"--remote-namespace": "{namespace!s}"}, "--remote-namespace: '{namespace!s}': fields stand"),
    ({"--remote-namespace": "all", "--namespace": ["a", "b"]}, "--remote-namespace 'all' maps two"),
    ({"--remote-namespace": "all", "--namespace": ["*"]}, "--remote-namespace 'all' maps two"),
    ({"--certificates": "files"}, "--certificate-file is required with --certificates files"),
    ({"--key-file": "k"}, "--key-file goes with --certificates files only"),
    ({"--certificates": "self-signed", "--approve-csr": True}, "--approve-csr goes with"),
    ({"--remote-unreachable": "wait"}, "--remote-unreachable: must be 'evict' or 'keep'"),
]


@pytest.mark.parametrize(("flags", "message"), BAD_FLAGS)
def test_a_wrong_value_is_named_by_its_flag(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({**FLAGS, **flags})
    assert str(caught.value).startswith(message)


def test_a_wrong_selector_is_pointed_at() -> None:
    with pytest.raises(ConfigError) as caught:
        load({**FLAGS, "--node-mapping": "selector", "--virtual-node": ["gpu=a in b"]})
    first, shown, caret = str(caught.value).splitlines()
    assert first.startswith("--virtual-node: ")
    assert shown[caret.index("^")] == "b"


def test_a_virtual_node_has_a_name_and_a_selector() -> None:
    config = load(
        {**FLAGS, "--node-mapping": "selector", "--virtual-node": ["gpu=accelerator in (a,b),!old"]}
    )
    (node,) = config.nodes.virtual_nodes
    assert (node.name, str(node.selector)) == ("gpu", "accelerator in (a,b),!old")


def test_the_excluded_labels_are_the_vendors_unless_given() -> None:
    assert "eks.amazonaws.com/*" in load(FLAGS).nodes.excluded_labels
    config = load({**FLAGS, "--node-label-exclude": ["corp/*"]})
    assert config.nodes.excluded_labels == ("corp/*",)


def test_a_command_takes_its_part_of_a_file_and_of_the_environment(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "remote: {cluster: cloud, kubeconfig: file}\nnamespaces: {names: [a]}\nkubelet: {}\n",
    )
    environment = {"VKUBELET_CAPACITY_PERCENT": "50", "VKUBELET_NAMESPACE": "A_B"}
    config = load_config(PlanConfig, file=file, environment=environment, flags={})
    assert config.remote.cluster == "cloud"
    assert config.capacity.percent == 50
    home = load_config(HomeTeardownConfig, file=file, environment={}, flags={})
    assert home.remote.cluster == "cloud"


def test_a_misspelt_key_is_found_also_where_the_command_does_not_look(tmp_path: Path) -> None:
    file = write(tmp_path, "remote: {cluster: cloud, kubeconfig: f}\nkubelet: {adress: x}\n")
    with pytest.raises(ConfigError, match=r"unknown key kubelet\.adress"):
        load_config(PlanConfig, file=file, environment={}, flags={})


def test_all_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load({"--namespace": ["a"]})
    assert str(caught.value) == (
        "--remote-cluster, --remote-kubeconfig, --kubelet-address must be given"
    )


def test_no_namespace_is_reflected_by_default() -> None:
    with pytest.raises(ConfigError, match="--namespace or --namespace-selector is required"):
        load(without("--namespace"))


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="VKUBELET_REMOTE_CLUSTER: 'X' is not a DNS label"):
        load(without("--remote-cluster"), {"VKUBELET_REMOTE_CLUSTER": "X"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("remote: {clustr: x}", "unknown key remote.clustr"),
        ("peer: {}", "unknown key peer"),
        ("remote: 5", "remote: a mapping is expected"),
        ("[1]", "a mapping is expected at the top"),
        ("remote: {", "not YAML"),
        ("namespaces: {names: demo}", "namespaces.names in .*: must be a list, not 'demo'"),
        ("remote: {cluster: A_B}", "remote.cluster in .*: 'A_B' is not a DNS label"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load({}, file=write(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--config .*: No such file"):
        load(FLAGS, file=tmp_path / "none.yaml")


def test_misspelt_variables_are_found() -> None:
    assert unknown_variables(["PATH", "VKUBELET_REMOTE_CLUSTER", "VKUBELET_REMOTE_CLUSTR"]) == [
        "VKUBELET_REMOTE_CLUSTR"
    ]


def test_every_field_has_a_flag_and_a_help_text() -> None:
    flags = [item.flag.name for item in config_fields()]
    assert len(flags) == len(set(flags))
    assert all(item.help.endswith(".") for item in config_fields())


def test_null_in_a_file_is_as_if_it_was_left_out(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "home: {cluster: null, systemNamespace: null}\nnamespaces: {names: [a], selector: null}\n"
        "nodes: {name: null, mappingLabel: null, namePrefix: null, maxNodes: null}\n",
    )
    assert load(FLAGS, file=file).home.cluster is None
