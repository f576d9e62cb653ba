"""The tree of values: frozen, and known as a whole."""

from typing import Any

import pytest
from pydantic import ValidationError

from provider.checks import ListenAddress
from provider.config import Config, PodNetwork
from provider.configuration import load_config
from provider.errors import ConfigError
from provider.translation.tokens import ApiAccess
from tests.provider.test_configuration import FLAGS


def test_nothing_in_the_tree_can_be_changed() -> None:
    config = load_config(Config, file=None, environment={}, flags=FLAGS)
    with pytest.raises(ValidationError):
        config.remote.cluster = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8080", ListenAddress("", 8080)),
        ("127.0.0.1:0", ListenAddress("127.0.0.1", 0)),
        ("[::1]:80", ListenAddress("::1", 80)),
    ],
)
def test_listen_addresses(text: str, expected: ListenAddress) -> None:
    config = load_config(
        Config, file=None, environment={}, flags={**FLAGS, "--health-address": text}
    )
    assert config.process.health_address == expected


def test_a_section_has_a_title() -> None:
    assert all(info.annotation.__doc__ for info in Config.model_fields.values())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"--api-access": "home"}, "--home-api-server is required with --api-access home"),
        (
            {"--home-api-server": "a:1"},
            "--home-api-server goes with --api-access home only",
        ),
        (
            {"--home-api-server": "a:1", "--api-access": "remote"},
            "--home-api-server goes with --api-access home only",
        ),
    ],
)
def test_the_address_of_homes_api_server_goes_with_access_to_it(
    flags: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(Config, file=None, environment={}, flags={**FLAGS, **flags})


def test_access_to_homes_api_server() -> None:
    flags = {"--api-access": "home", "--home-api-server": "api.home.example:6443"}
    config = load_config(Config, file=None, environment={}, flags={**FLAGS, **flags})
    assert config.pods.api_access is ApiAccess.HOME
    assert str(config.pods.home_api_server) == "api.home.example:6443"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            {"--remap-cidr": ["10.0.0.0/8=11.0.0.0/8"]},
            "--remap-cidr goes with --pod-network routed only",
        ),
        (
            {
                "--pod-network": "routed",
                "--remap-cidr": ["10.0.0.0/8=11.0.0.0/8", "10.1.0.0/16=12.1.0.0/16"],
            },
            "--remap-cidr 10.0.0.0/8=11.0.0.0/8 and 10.1.0.0/16=12.1.0.0/16 overlap",
        ),
        (
            {"--pod-network": "routed", "--remap-cidr": ["10.0.0.0/8"]},
            "--remap-cidr.*is not FROM=TO",
        ),
        ({"--stream-creation-timeout": "0s"}, "--stream-creation-timeout must be longer"),
        ({"--stream-idle-timeout": "0"}, "--stream-idle-timeout.*or never"),
        ({"--unschedulable-timeout": "0s"}, "--unschedulable-timeout.*give a duration"),
        ({"--remote-lost-timeout": "soon"}, "--remote-lost-timeout.*is not a duration"),
    ],
)
def test_settings_of_pods_that_make_no_sense(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(Config, file=None, environment={}, flags={**FLAGS, **flags})


def test_pods_by_default() -> None:
    pods = load_config(Config, file=None, environment={}, flags=FLAGS).pods
    assert not pods.allow_host_access
    assert pods.network is PodNetwork.NONE
    assert pods.unschedulable_timeout.finite_seconds is None
    assert pods.remote_lost_timeout.finite_seconds == 300
