"""`vkubelet check`: what it prints, and its exit code."""

import json
from pathlib import Path

import pytest

from provider.checkup.checks import CheckOptions
from provider.command_config import CheckConfig
from provider.commands.check import check, main
from provider.errors import ConfigError
from tests.provider.checkup.world import allow_but, open_world


async def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_world() as world:
        await check(world.config(), CheckOptions(only=("versions",)), output="table")
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split()[:2] == ["ok", "versions"]
        assert lines[-1] == "all is well"


async def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_world() as world:
        allow_but(world.home, "list pods")
        await check(world.config(), CheckOptions(only=("home-rights",)), output="json")
        told = json.loads(capsys.readouterr().out)
        assert told["failed"] is True
        assert told["checks"][0]["findings"][0]["message"].endswith("may not list pods")


def config(**sections: object) -> CheckConfig:
    remote = {"cluster": "cloud", "kubeconfig": "/none"}
    home = {"kubeconfig": Path("/none")}
    return CheckConfig.model_validate(
        {"home": home, "remote": remote, "namespaces": {"names": ["demo"]}, **sections}
    )


def test_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(config(), CheckOptions(), output="table") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 failures"


def test_a_mapping_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match="--node-mapping"):
        main(config(nodes={"mapping": "zones"}), CheckOptions(), output="table")
