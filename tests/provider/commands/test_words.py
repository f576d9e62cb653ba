"""Figures as people read them."""

from datetime import timedelta

import pytest

from provider.commands.words import count, format_age, format_seconds, shorten_quantity


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (2e5, "2d")],
)
def test_ages(seconds: float, text: str) -> None:
    assert format_age(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.0123, "12 ms"), (0.0, "0 ms"), (1.55, "1.6 s")]
)
def test_short_times(seconds: float | None, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("quantity", "resource", "text"),
    [
        ("16384256Ki", "memory", "15.6Gi"),
        ("32Gi", "memory", "32Gi"),
        ("0", "memory", "0"),
        ("1100Gi", "ephemeral-storage", "1.1Ti"),
        ("2Mi", "hugepages-2Mi", "2Mi"),
        ("3500m", "cpu", "3500m"),
        ("110", "pods", "110"),
        ("-", "memory", "-"),
    ],
)
def test_quantities(quantity: str, resource: str, text: str) -> None:
    assert shorten_quantity(quantity, resource) == text


def test_numbers_of_things() -> None:
    assert [count(number, "pod") for number in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]
