"""
Kubernetes quantities, exact. Source: apimachinery pkg/api/resource/quantity.go.

Values are built from integers, never through a Decimal context, so nothing is lost to its
precision. Text is canonical: the API server would store it letter by letter, so what is written
can be compared with what is read.
"""

import re
from decimal import Decimal

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_DECIMAL_EXPONENTS = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

_LARGEST = (1 << 63) - 1
"""
Where values are capped, as the API documents (and does for binary suffixes).

Whoever may create pods could otherwise ask for 1e999999, and no sum with it would be exact.
"""

_SMALLEST_EXPONENT = -9
"""Nothing is finer than a nano; what is gets rounded away from zero: little isn't nothing."""

_MAX_LENGTH = 256
"""int() refuses more than 4300 digits; no number needs even this many."""

_BINARY_RESOURCES = ("memory", "storage", "ephemeral-storage")


def parse_quantity(text: str) -> Decimal:
    """
    Value of a quantity ("100m", "1Gi", "2e3"), exact.

    Raises:
        ValueError: Names the text.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(f"{text!r} is not a quantity (such as 2, 500m, 1.5Gi, 3e6)")
    fraction = match["fraction"] or ""
    mantissa = int(match["whole"] + fraction)
    exponent = -len(fraction)
    suffix = match["suffix"] or ""
    if suffix in _BINARY_EXPONENTS:
        mantissa <<= _BINARY_EXPONENTS[suffix]
    elif match["exponent"] is not None:
        exponent += int(match["exponent"])
    else:
        exponent += _DECIMAL_EXPONENTS[suffix]
    if exponent < _SMALLEST_EXPONENT:
        mantissa = _round_up(mantissa, _SMALLEST_EXPONENT - exponent)
        exponent = _SMALLEST_EXPONENT
    mantissa, exponent = _cap(mantissa, exponent)
    return _build_decimal(mantissa, exponent, negative=match["sign"] == "-")


def format_quantity(value: Decimal, resource: str) -> str:
    """
    Canonical text of a value, rounded down to what the resource can express.

    Steps of "m" for cpu; Ki, Mi, Gi where they divide memory-like resources; else whole numbers.
    """
    if resource == "cpu":
        return _format_decimal(_floor_scaled(value, 3), "m")
    whole = _floor_scaled(value, 0)
    if _is_binary(resource) and whole % 1024 == 0 and whole != 0:
        return _format_scaled(whole, 1024, _BINARY_SUFFIXES)
    return _format_scaled(whole, 1000, _DECIMAL_SUFFIXES)


def _is_binary(resource: str) -> bool:
    name = resource.removeprefix("requests.").removeprefix("limits.")
    return name in _BINARY_RESOURCES or name.startswith("hugepages-")


def _round_up(mantissa: int, digits: int) -> int:
    if digits > len(str(mantissa)):
        return min(mantissa, 1)  # without the power, which an exponent could make huge
    return -(-mantissa // int(10**digits))


def _cap(mantissa: int, exponent: int) -> tuple[int, int]:
    """Return what doesn't exceed the largest value, without powers of what an attacker chose."""
    if exponent <= 0:
        is_larger = mantissa > _LARGEST * int(10**-exponent)
    else:
        is_larger = mantissa > 0 and (
            exponent > len(str(_LARGEST)) or mantissa * int(10**exponent) > _LARGEST
        )
    return (_LARGEST, 0) if is_larger else (mantissa, 0 if mantissa == 0 else exponent)


def _build_decimal(mantissa: int, exponent: int, *, negative: bool) -> Decimal:
    digits = tuple(int(digit) for digit in str(mantissa))
    return Decimal((int(negative and mantissa != 0), digits, exponent))


def _floor_scaled(value: Decimal, places: int) -> int:
    """Return floor(value * 10 ** places), in integers."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * int(10**places) // denominator


def _format_decimal(thousandths: int, suffix: str) -> str:
    if thousandths % 1000:
        return f"{thousandths}{suffix}"
    return _format_scaled(thousandths // 1000, 1000, _DECIMAL_SUFFIXES)


def _format_scaled(value: int, step: int, suffixes: tuple[str, ...]) -> str:
    index = 0
    while value and value % step == 0 and index < len(suffixes) - 1:
        value //= step
        index += 1
    return f"{value}{suffixes[index]}"
