"""What the commands take that look from outside."""

import pytest

from provider.command_config import CheckConfig, StatusConfig
from provider.configuration import load_config
from provider.errors import ConfigError


def test_status_needs_nothing() -> None:
    config = load_config(StatusConfig, file=None, environment={}, flags={})
    assert config.remote.cluster is None


def test_status_of_one_peering() -> None:
    flags = {"--remote-cluster": "cloud"}
    config = load_config(StatusConfig, file=None, environment={}, flags=flags)
    assert config.remote.cluster == "cloud"
    with pytest.raises(ConfigError, match="--remote-cluster: 'Bad_Name'"):
        load_config(StatusConfig, file=None, environment={}, flags={"--remote-cluster": "Bad_Name"})


def test_check_takes_what_run_takes_but_needs_no_address() -> None:
    flags = {
        "--remote-cluster": "cloud",
        "--remote-kubeconfig": "x",
        "--namespace": ["demo"],
    }
    config = load_config(CheckConfig, file=None, environment={}, flags=flags)
    assert config.kubelet.address is None
    assert config.kubelet.ports.first == 10250
    environment = {"POD_IP": "192.0.2.1"}
    config = load_config(CheckConfig, file=None, environment=environment, flags=flags)
    assert config.kubelet.address == "192.0.2.1"
