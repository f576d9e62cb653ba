"""What each command takes: flags made from the configuration's fields; and how it's run."""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from provider.checkup.names import POD
from provider.cli_options import add_options
from provider.command_config import CheckConfig, StatusConfig
from provider.config import (
    Config,
    ConfigField,
    HomeTeardownConfig,
    LogLevel,
    PlanConfig,
    TeardownConfig,
    config_fields,
)
from provider.configuration import environment_of_process, load_config, unknown_variables
from provider.errors import ConfigError
from provider.flags import Section

T = TypeVar("T", bound=Section)

MODELS: Mapping[str, type[Section]] = {
    "run": Config,
    "plan": PlanConfig,
    "check": CheckConfig,
    "status": StatusConfig,
    "teardown": TeardownConfig,
}
"""The part of the configuration that a command takes."""


def add_flags(parser: argparse.ArgumentParser, command: str) -> None:
    """Add all flags of a command to its parser."""
    add_options(parser, command)
    if command in MODELS:
        _add_config_flags(parser, MODELS[command])


def _add_config_flags(parser: argparse.ArgumentParser, model: type[Section]) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        default=None,
        help="Configuration file (YAML); flags and environment go before it.",
    )
    groups: dict[str, Any] = {}
    for item in config_fields(model):
        section = item.path[0]
        if section not in groups:
            part: Any = model.model_fields[section].annotation
            groups[section] = parser.add_argument_group(part.__doc__.rstrip(".").lower())
        _add_flag(groups[section], item)


def _add_flag(group: Any, item: ConfigField) -> None:  # argparse's group class is private
    text = item.help.replace("%", "%%")
    if item.switch:
        group.add_argument(
            item.flag.name, action="store_true", default=argparse.SUPPRESS, help=text
        )
        return
    group.add_argument(
        item.flag.name,
        metavar=item.flag.metavar,
        action="append" if item.repeatable else "store",
        default=argparse.SUPPRESS,
        help=text,
    )


def _given_flags(arguments: argparse.Namespace, model: type[Section]) -> Mapping[str, Any]:
    given = vars(arguments)
    by_destination = {
        item.flag.name.removeprefix("--").replace("-", "_"): item.flag.name
        for item in config_fields(model)
    }
    return {name: given[key] for key, name in by_destination.items() if key in given}


def _read_config(model: type[T], arguments: argparse.Namespace) -> T:
    environment = environment_of_process()
    unknown = unknown_variables(environment)
    if unknown:
        raise ConfigError(f"unknown environment variable {unknown[0]}")
    file = arguments.config
    if file is None and environment.get("VKUBELET_CONFIG"):
        file = Path(environment["VKUBELET_CONFIG"])
    flags = _given_flags(arguments, model)
    return load_config(model, file=file, environment=environment, flags=flags)


def _configure_logging(level: LogLevel) -> None:
    logging.basicConfig(
        level=level.value.upper(),
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        stream=sys.stderr,
    )


def _run(arguments: argparse.Namespace) -> int:
    config = _read_config(Config, arguments)
    _configure_logging(config.process.log_level)
    from provider.commands import run

    return run.main(config)


def _plan(arguments: argparse.Namespace) -> int:
    config = _read_config(PlanConfig, arguments)
    _configure_logging(LogLevel.ERROR)  # the plan itself tells what is to be told
    from provider.commands import plan

    return plan.main(config, output=arguments.output)


def _check(arguments: argparse.Namespace) -> int:
    if POD in arguments.only and arguments.run_pod is None:
        raise ConfigError(f"--only {POD} needs --run-pod")
    config = _read_config(CheckConfig, arguments)
    _configure_logging(LogLevel.ERROR)  # the findings tell what is to be told
    from provider.checkup.checks import CheckOptions
    from provider.commands import check

    options = CheckOptions(
        only=arguments.only,
        service_account=arguments.service_account,
        probe=arguments.probe,
        image=arguments.run_pod,
        command=arguments.pod_command,
    )
    return check.main(config, options, output=arguments.output)


def _kubeconfig(arguments: argparse.Namespace) -> int:
    _configure_logging(LogLevel.ERROR)
    from provider.commands import kubeconfig

    options = kubeconfig.KubeconfigOptions(
        account=arguments.service_account,
        duration=arguments.duration,
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        server=arguments.server,
        bound_secret=arguments.bound_secret,
        out=arguments.out,
    )
    return kubeconfig.main(options)


def _status(arguments: argparse.Namespace) -> int:
    config = _read_config(StatusConfig, arguments)
    _configure_logging(LogLevel.ERROR)  # the status itself tells what is to be told
    from provider.commands import status

    return status.main(config, output=arguments.output, watch=arguments.watch)


def _teardown(arguments: argparse.Namespace) -> int:
    config = (
        _read_config(HomeTeardownConfig, arguments)
        if arguments.home_only
        else _read_config(TeardownConfig, arguments)
    )
    _configure_logging(LogLevel.WARNING)
    from provider.commands import teardown

    return teardown.main(config, yes=arguments.yes, dry_run=arguments.dry_run)


RUN: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "plan": _plan,
    "check": _check,
    "status": _status,
    "kubeconfig": _kubeconfig,
    "teardown": _teardown,
}
"""What runs a command; it returns the exit code."""
