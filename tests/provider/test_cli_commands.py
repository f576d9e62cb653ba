"""The flags of each command, and what becomes of them."""

import pytest

from provider.cli import COMMANDS, build_parser, main
from provider.cli_commands import MODELS, RUN
from provider.command_config import CheckConfig, StatusConfig
from provider.config import HomeTeardownConfig, PlanConfig, TeardownConfig, config_fields
from provider.flags import Section


def test_each_command_is_run_and_configured_as_it_says() -> None:
    assert RUN.keys() == COMMANDS.keys() - {"version"}
    assert MODELS.keys() == {name for name, command in COMMANDS.items() if command.configured}


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(item.flag.name in text for item in config_fields())


@pytest.mark.parametrize(
    ("command", "model"),
    [
        ("plan", PlanConfig),
        ("check", CheckConfig),
        ("status", StatusConfig),
        ("teardown", TeardownConfig),
        ("teardown", HomeTeardownConfig),
    ],
)
def test_a_command_has_the_flags_of_its_part(
    command: str, model: type[Section], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert all(item.flag.name in text for item in config_fields(model))
    assert ("--kubelet-address" in text) is (command == "check")
    assert ("--remote-unreachable" in text) is (command == "check")  # as run would get it


def test_switches_take_no_value() -> None:
    parser = build_parser("run")
    assert parser.parse_args(["run", "--approve-csr"]).approve_csr is True
