"""The command line: flags made from the configuration's fields, a module a command."""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from provider.checkup.names import POD
from provider.cli_options import add_kubeconfig_parser, add_options
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
from provider.errors import ConfigError, StartError
from provider.flags import Section
from vkubelet import __version__

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Section)

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + 2


@dataclass(frozen=True, slots=True)
class Command:
    """
    A command that takes a configuration.

    Attributes:
        model: The part of the configuration.
        help: One line.
        description: What it does.
    """

    model: type[Section]
    help: str
    description: str


COMMANDS = {
    "run": Command(
        Config,
        "serve the virtual nodes of a remote cluster until stopped",
        "Registers virtual nodes for a remote cluster, reflects the pods bound to them and serves"
        " the kubelet API.",
    ),
    "plan": Command(
        PlanConfig,
        "show the virtual nodes that these flags would make, and change nothing",
        "Looks at the remote cluster and shows the virtual nodes that the given flags would make,"
        " with the physical nodes behind each, what it would offer, the node affinity that pods"
        " would get, and which physical nodes are left out and why. Changes nothing.",
    ),
    "check": Command(
        CheckConfig,
        "tell what would fail with these flags, and what to do about it",
        "Looks at both clusters and tells what would fail with the given flags: rights, versions,"
        " names, ports, certificates, DaemonSets and more. Changes nothing, unless --probe or"
        " --run-pod asks for it. Exit code 1 if something doesn't work.",
    ),
    "status": Command(
        StatusConfig,
        "show the peerings of a home cluster, their virtual nodes and pods",
        "Looks at the home cluster and shows its peerings: who serves them and how that fares, the"
        " virtual nodes and what they offer, the pods on them and why some don't run. Changes"
        " nothing.",
    ),
    "teardown": Command(
        TeardownConfig,
        "remove everything that a peering left behind, on both sides",
        "Removes what a peering left behind: its virtual nodes are cordoned and their pods"
        " evicted, then remote pods, anchors, our empty remote namespaces, Nodes and Leases are"
        " deleted. Asks before it acts.",
    ),
}
VALUES_FROM = " Values come from --config, then the environment (VKUBELET_ and the flag's name),"
VALUES_FROM += " then flags."


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    parser = _Parser(
        prog="vkubelet",
        description="Makes a remote Kubernetes cluster usable as nodes of your own.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=command.help,
            description=command.description + VALUES_FROM,
            allow_abbrev=False,
        )
        add_options(sub, name)
        _add_config_flags(sub, command.model)
    add_kubeconfig_parser(commands)
    commands.add_parser(
        "version", help="print the version", description="Prints the version.", allow_abbrev=False
    )
    return parser


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


def main(argv: Sequence[str]) -> int:
    """
    Run a command.

    Returns:
        0 on success, 1 when it failed, 2 when the command line or configuration is wrong.
    """
    commands = {
        "run": _run,
        "plan": _plan,
        "check": _check,
        "status": _status,
        "kubeconfig": _kubeconfig,
        "teardown": _teardown,
    }
    try:
        arguments = build_parser().parse_args(argv)
        if arguments.command == "version":
            sys.stdout.write(f"vkubelet {__version__}\n")
            return 0
        return commands[arguments.command](arguments)
    except SystemExit as end:  # argparse's way to end: --help, a wrong flag
        return end.code if isinstance(end.code, int) else EXIT_FAILED
    except ConfigError as error:
        sys.stderr.write(f"vkubelet: {error}\n")
        return EXIT_USAGE
    except StartError as error:
        sys.stderr.write(f"vkubelet: {error}\n")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def run_from_command_line() -> NoReturn:
    """Entry point of the console script."""
    sys.exit(main(sys.argv[1:]))
