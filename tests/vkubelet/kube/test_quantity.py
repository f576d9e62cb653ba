from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from vkubelet.kube.quantity import format_quantity, parse_quantity

LARGEST = Decimal(2**63 - 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("1", "1"),
        ("+1", "1"),
        ("-1.5", "-1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("007", "7"),
        ("100n", "0.0000001"),
        ("100u", "0.0001"),
        ("100m", "0.1"),
        ("1k", "1000"),
        ("1M", "1e6"),
        ("1G", "1e9"),
        ("1T", "1e12"),
        ("1P", "1e15"),
        ("1E", "1e18"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("0.1Ki", "102.4"),
        ("1Ei", str(2**60)),
        ("2e3", "2000"),
        ("2E3", "2000"),
        ("2e+3", "2000"),
        ("2E-3", "0.002"),
        ("1.25e1", "12.5"),
        ("0.1n", "1e-9"),
        ("-0.1n", "-1e-9"),
        ("1.0000000001", "1.000000001"),
        ("1e-5000", "1e-9"),
        ("0e-5000", "0"),
        ("0e99999999999", "0"),
        ("1234567890123456789.123456789", "1234567890123456789.123456789"),
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_value_is_exact(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    [
        "8Ei",
        "9223372036854775807.5Ki",
        "10E",
        "1e19",
        "1e999999999999",
        "9" * 200,
        "9223372036854775807.000000001",
    ],
)
def test_larger_values_are_capped(text: str) -> None:
    assert parse_quantity(text) == LARGEST
    assert parse_quantity(f"-{text}") == -LARGEST


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "+", "-", "m", "Gi", " 1", "1 ", "+-1", "1.1.M", "1+1.0M", "0.1mi", "0.1am", "1i",
        "-3.01i", "1e", "1e+", "1Ee3", "1K", "1KI", "1gi", "1_000", "\u0661",
        "9" * 5000, "NaN", "Infinity", "0x10",
    ],
)  # fmt: skip
def test_other_text_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        parse_quantity(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("value", "resource", "text"),
    [
        ("0", "cpu", "0"),
        ("2", "cpu", "2"),
        ("0.1", "cpu", "100m"),
        ("1.5", "cpu", "1500m"),
        ("1.0009", "cpu", "1"),
        ("0.0005", "cpu", "0"),
        ("2000", "cpu", "2k"),
        ("-0.5", "cpu", "-500m"),
        ("0", "memory", "0"),
        ("1024", "memory", "1Ki"),
        ("1610612736", "memory", "1536Mi"),
        ("17179869184", "memory", "16Gi"),
        ("1025", "memory", "1025"),
        ("1500000001", "memory", "1500000001"),
        ("100000", "memory", "100k"),
        ("1024.9", "memory", "1Ki"),
        ("2097152", "hugepages-2Mi", "2Mi"),
        ("1048576", "ephemeral-storage", "1Mi"),
        ("1048576", "requests.storage", "1Mi"),
        ("110", "pods", "110"),
        ("3000", "pods", "3k"),
        ("1024", "nvidia.com/gpu", "1024"),
        ("2.7", "nvidia.com/gpu", "2"),
        ("1e21", "pods", "1000E"),
        (str(2**70), "memory", "1024Ei"),
    ],
)
def test_text_is_canonical(value: str, resource: str, text: str) -> None:
    assert format_quantity(Decimal(value), resource) == text


@given(st.integers(min_value=-(10**21), max_value=10**21))
def test_cpu_survives_to_the_milli(thousandths: int) -> None:
    value = Decimal(thousandths).scaleb(-3)
    assert parse_quantity(format_quantity(value, "cpu")) == value


@given(
    st.integers(min_value=0, max_value=2**63 - 1),
    st.sampled_from(["memory", "hugepages-1Gi", "pods", "example.com/device"]),
)
def test_whole_numbers_survive(number: int, resource: str) -> None:
    assert parse_quantity(format_quantity(Decimal(number), resource)) == number


@given(
    st.decimals(min_value=0, max_value=10**15, places=9),
    st.sampled_from(["cpu", "memory", "pods"]),
)
def test_text_never_promises_more_than_the_value(value: Decimal, resource: str) -> None:
    written = parse_quantity(format_quantity(value, resource))
    step = Decimal("0.001") if resource == "cpu" else Decimal(1)
    assert value - step < written <= value


@given(st.text(max_size=20))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        value = parse_quantity(text)
    except ValueError:
        return
    assert value.is_finite()


@given(
    st.integers(min_value=0, max_value=10**9),
    st.integers(min_value=0, max_value=10**6 - 1),
    st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "e3", "E-2"]),
)
def test_fraction_and_suffix_agree_with_plain_arithmetic(
    whole: int, part: int, suffix: str
) -> None:
    factors = {
        "": "1", "m": "0.001", "k": "1e3", "M": "1e6", "G": "1e9", "Ki": "1024", "Mi": "1048576",
        "e3": "1e3", "E-2": "0.01",
    }  # fmt: skip
    expected = Decimal(f"{whole}.{part:06}") * Decimal(factors[suffix])
    assert parse_quantity(f"{whole}.{part:06}{suffix}") == expected
