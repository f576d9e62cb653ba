"""Values of flags: what is kept, and what is refused (see also test_configuration)."""

from decimal import Decimal

import pytest

from provider.checks import (
    CapacityLimit,
    Duration,
    check_label_pattern,
    parse_duration,
    read_api_server,
    read_capacity_limit,
    read_duration,
    read_timeout,
)
from provider.translation.pod import ApiServerAddress


@pytest.mark.parametrize(
    ("text", "seconds", "shown"),
    [("90s", 90, "1m30s"), ("5m", 300, "5m"), ("1h30m", 5400, "1h30m"), ("45", 45, "45s")],
)
def test_durations(text: str, seconds: int, shown: str) -> None:
    assert parse_duration(text) == Duration(seconds)
    assert str(Duration(seconds)) == shown


def test_no_time_at_all_is_a_duration_too() -> None:
    assert str(parse_duration("0s")) == "0s"


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-1s", "1.5h", "5m1h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_a_number_in_a_file_is_seconds() -> None:
    assert read_duration(30) == Duration(30)


@pytest.mark.parametrize(
    ("value", "seconds", "shown"),
    [("never", None, "never"), ("5m", 300, "5m"), (30, 30, "30s")],
)
def test_timeouts(value: object, seconds: int | None, shown: str) -> None:
    timeout = read_timeout(value)
    assert isinstance(timeout, Duration)
    assert timeout.finite_seconds == seconds
    assert str(timeout) == shown


@pytest.mark.parametrize("value", ["0s", 0])
def test_no_time_is_no_timeout(value: object) -> None:
    with pytest.raises(
        ValueError, match=r"is no time-out: give a duration \(such as 5m\) or never"
    ):
        read_timeout(value)


def test_capacity_limits() -> None:
    assert read_capacity_limit("nvidia.com/gpu=2") == CapacityLimit("nvidia.com/gpu", Decimal(2))
    assert read_capacity_limit("memory=1Gi") == CapacityLimit("memory", Decimal(2**30))


def test_patterns_of_labels() -> None:
    assert check_label_pattern("corp.example/*") == "corp.example/*"
    with pytest.raises(ValueError, match="is not a label key"):
        check_label_pattern("[a-z]")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("api.home.example:6443", "api.home.example", 6443),
        ("192.0.2.1:443", "192.0.2.1", 443),
        ("[2001:db8::1]:443", "2001:db8::1", 443),
    ],
)
def test_addresses_of_an_api_server(text: str, host: str, port: int) -> None:
    address = read_api_server(text)
    assert address == ApiServerAddress(host, port)
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "host", "host:", "host:0", "host:70000", ":1", "a b:1", "A_:1"]
)
def test_what_is_no_address_of_an_api_server(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not HOST:PORT|neither a host name nor"):
        read_api_server(text)
