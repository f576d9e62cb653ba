"""Options that aren't configuration but said anew each time, and how their values are read."""

import argparse
import shlex
from pathlib import Path
from urllib.parse import urlsplit

from provider.checks import Duration, parse_duration
from provider.checkup.names import NAMES
from vkubelet.kube.names import is_dns_label, is_dns_subdomain
from vkubelet.kube.objects import NamespacedName

DEFAULT_TOKEN_SECONDS = 24 * 3600
MIN_TOKEN_SECONDS = 600
"""API servers give no shorter ones."""

OUTPUTS = ("table", "json", "yaml")


def add_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Add a command's own options to its parser."""
    if command in ("plan", "check", "status"):
        parser.add_argument(
            "-o",
            "--output",
            choices=OUTPUTS,
            default="table",
            help="How it's printed (default: table).",
        )
    if command == "check":
        _add_check_options(parser)
    if command == "kubeconfig":
        _add_kubeconfig_options(parser)
    if command == "status":
        parser.add_argument(
            "-w", "--watch", action="store_true", help="Go on showing it until Ctrl-C."
        )
    if command == "teardown":
        for flag, text in (
            ("--yes", "Don't ask."),
            ("--dry-run", "Show what would be removed, and remove nothing."),
            (
                "--home-only",
                "Leave the remote cluster alone, as it's gone (no --remote-kubeconfig is needed).",
            ),
        ):
            parser.add_argument(flag, action="store_true", help=text)


def _add_check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        metavar="CHECK",
        action="append",
        choices=NAMES,
        default=[],
        help=f"Run just this check; repeatable: {', '.join(NAMES)}.",
    )
    parser.add_argument(
        "--service-account",
        metavar="NAMESPACE/NAME",
        type=_read_account,
        help="Check this service account's rights at home (default: one's own).",
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="Listen at --kubelet-address, and have the home API server come there by a Node that"
        " is made for it and deleted; for before anything runs, where it is to run.",
    )
    parser.add_argument(
        "--run-pod",
        metavar="IMAGE",
        help="Run a pod of this image through a virtual node, read its log, and delete it.",
    )
    parser.add_argument(
        "--pod-command",
        metavar="COMMAND",
        type=shlex.split,
        default=[],
        help="With --run-pod: what it runs (default: what the image says).",
    )


def _read_account(text: str) -> NamespacedName:
    namespace, slash, name = text.partition("/")
    if not slash or not is_dns_label(namespace) or not is_dns_subdomain(name):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return NamespacedName(namespace, name)


def _add_kubeconfig_options(parser: argparse.ArgumentParser) -> None:
    for flag, metavar, read, text in (
        ("--kubeconfig", "FILE", Path, "Of somebody who may ask for tokens (default: as kubectl)."),
        ("--context", "NAME", str, "Context in it (default: its current one)."),
        ("--server", "URL", _read_url, "The API server as others reach it (default: as there)."),
        ("--bound-secret", "NAME", str, "Secret beside it; deleting it ends the token at once."),
        ("--out", "FILE", Path, "File that is replaced as a whole (default: standard output)."),
    ):
        parser.add_argument(flag, metavar=metavar, type=read, default=None, help=text)
    parser.add_argument(
        "--service-account",
        metavar="NAMESPACE/NAME",
        type=_read_account,
        required=True,
        help="The service account. Required.",
    )
    parser.add_argument(
        "--duration",
        metavar="DURATION",
        type=_read_token_duration,
        default=Duration(DEFAULT_TOKEN_SECONDS),
        help="How long the token is to last; the server may cut it (default: 24h).",
    )


def _read_url(text: str) -> str:
    url = urlsplit(text)
    if url.scheme != "https" or not url.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is not https://HOST[:PORT]")
    return text.rstrip("/")


def _read_token_duration(text: str) -> Duration:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if duration.seconds < MIN_TOKEN_SECONDS:
        raise argparse.ArgumentTypeError("a token lasts 10m at least")
    return duration
