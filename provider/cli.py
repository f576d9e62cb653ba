"""
The command line as a whole: its commands, errors and exit codes.

What a command takes is looked at when it's given: `--help` and `version` are told at once.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from provider.errors import ConfigError, StartError
from vkubelet import __version__

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + 2


@dataclass(frozen=True, slots=True)
class Command:
    """
    A command.

    Attributes:
        help: One line.
        description: What it does.
        configured: Whether it takes a configuration.
    """

    help: str
    description: str
    configured: bool = True


COMMANDS = {
    "run": Command(
        "serve the virtual nodes of a remote cluster until stopped",
        "Registers virtual nodes for a remote cluster, reflects the pods bound to them and serves"
        " the kubelet API.",
    ),
    "plan": Command(
        "show the virtual nodes that these flags would make, and change nothing",
        "Looks at the remote cluster and shows the virtual nodes that the given flags would make,"
        " with the physical nodes behind each, what it would offer, the node affinity that pods"
        " would get, and which physical nodes are left out and why. Changes nothing.",
    ),
    "check": Command(
        "tell what would fail with these flags, and what to do about it",
        "Looks at both clusters and tells what would fail with the given flags: rights, versions,"
        " names, ports, certificates, DaemonSets and more. Changes nothing, unless --probe or"
        " --run-pod asks for it. Exit code 1 if something doesn't work.",
    ),
    "status": Command(
        "show the peerings of a home cluster, their virtual nodes and pods",
        "Looks at the home cluster and shows its peerings: who serves them and how that fares, the"
        " virtual nodes and what they offer, the pods on them and why some don't run. Changes"
        " nothing.",
    ),
    "kubeconfig": Command(
        "make a kubeconfig of a service account, for the other side of a peering",
        "Asks a cluster for a token of a service account and writes a kubeconfig with it. Run it"
        " where the remote cluster's administrator is at home; the process reads the kubeconfig"
        " anew whenever it's replaced.",
        configured=False,
    ),
    "teardown": Command(
        "remove everything that a peering left behind, on both sides",
        "Removes what a peering left behind: its virtual nodes are cordoned and their pods"
        " evicted, then remote pods, anchors, our empty remote namespaces, Nodes and Leases are"
        " deleted. Asks before it acts.",
    ),
    "version": Command("print the version", "Prints the version.", configured=False),
}
VALUES_FROM = " Values come from --config, then the environment (VKUBELET_ and the flag's name),"
VALUES_FROM += " then flags."


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def build_parser(given: str = "") -> argparse.ArgumentParser:
    """
    Build the parser of all commands.

    Args:
        given: The command that is to be parsed; the others get no flags.
    """
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
            description=command.description + (VALUES_FROM if command.configured else ""),
            allow_abbrev=False,
        )
        if name == given != "version":
            from provider.cli_commands import add_flags

            add_flags(sub, name)
    return parser


def main(argv: Sequence[str]) -> int:
    """
    Run a command.

    Returns:
        0 on success, 1 when it failed, 2 when the command line or configuration is wrong.
    """
    try:
        arguments = build_parser(argv[0] if argv else "").parse_args(argv)
        if arguments.command == "version":
            sys.stdout.write(f"vkubelet {__version__}\n")
            return 0
        from provider.cli_commands import RUN

        return RUN[arguments.command](arguments)
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
