"""What commands print: tables for people; JSON and YAML for programs."""

import sys
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml
from rich.console import Console

TERMINAL_WIDTH = 80
"""Where the output isn't a terminal."""


def open_console() -> Console:
    """Make a console for tables; it has colours only on a terminal (and without NO_COLOR)."""
    return Console(width=None if sys.stdout.isatty() else TERMINAL_WIDTH)


def print_encoded(value: Mapping[str, Any], output: str) -> None:
    """Print a value as "json" or "yaml"."""
    if output == "yaml":
        sys.stdout.write(yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True))
    else:
        body = msgspec.json.format(msgspec.json.encode(value), indent=2)
        sys.stdout.write(body.decode() + "\n")
    sys.stdout.flush()
