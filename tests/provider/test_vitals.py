"""What a process tells of itself, read by others."""

import msgspec

from provider.vitals import ApiErrors, Vitals, parse_vitals


def test_read_back() -> None:
    vitals = Vitals(version="0.1.0", api_errors={"home": ApiErrors(recent=1, total=2)})
    assert parse_vitals(msgspec.json.encode(vitals).decode()) == vitals


def test_of_another_version() -> None:
    parsed = parse_vitals('{"version":"9.0","somethingNew":{"a":1}}')
    assert parsed is not None
    assert (parsed.version, parsed.api_errors) == ("9.0", {})


def test_what_is_none() -> None:
    assert parse_vitals("") is None
    assert parse_vitals("{") is None
    assert parse_vitals('{"version":1}') is None
