"""The tree of values: frozen, and known as a whole."""

import pytest
from pydantic import ValidationError

from provider.config import Config, ListenAddress
from provider.configuration import load_config
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
