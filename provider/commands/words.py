"""Figures as people read them: short."""

from datetime import timedelta
from decimal import Decimal

from vkubelet.kube.quantity import format_quantity, parse_quantity

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LONG_UNITS = 2
"""From two of a unit on the smaller one says nothing any more."""


def format_age(age: timedelta) -> str:
    """Write a length of time in its largest unit that gives at least two: 90m, 3h, 12d."""
    seconds = max(int(age.total_seconds()), 0)
    for size, unit in _UNITS:
        if seconds >= _LONG_UNITS * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def format_seconds(seconds: float | None) -> str:
    """Write a short time: 12 ms, 1.5 s; a dash if there is none."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def shorten_quantity(text: str, resource: str) -> str:
    """Write a quantity in few characters: memory and its like with a binary suffix, rounded."""
    try:
        value = parse_quantity(text)
    except ValueError:
        return text
    if resource not in ("memory", "ephemeral-storage") and not resource.startswith("hugepages-"):
        return format_quantity(value, resource)
    suffix = 0
    while value >= 1024 and suffix < len(_BINARY) - 1:
        value, suffix = value / 1024, suffix + 1
    rounded = value.quantize(Decimal("0.1")).normalize()
    return f"{rounded:f}{_BINARY[suffix]}"


def count(number: int, what: str) -> str:
    """Write a number of things: 1 pod, 2 pods."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
