"""Exit codes of `vkubelet run`."""

from pathlib import Path

import pytest

from provider.commands import run
from provider.config import Config
from provider.configuration import load_config
from provider.errors import ConfigError


def load(**flags: str) -> Config:
    given = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    base = {
        "--kubeconfig": "/none/home",
        "--remote-cluster": "cloud",
        "--remote-kubeconfig": "/none/remote",
        "--namespace": ["demo"],
        "--kubelet-address": "127.0.0.1",
    }
    return load_config(Config, file=None, environment={}, flags={**base, **given})


def test_what_can_never_work_ends_with_1_and_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(load()) == 1
    said = capsys.readouterr().err
    assert said.startswith("vkubelet: ")
    assert str(Path("/none/home")) in said
    assert said.count("\n") == 1


def test_a_mapping_that_is_not_there_is_found_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="--node-mapping"):
        run.main(load(node_mapping="zones"))
