"""The API's time formats."""

from datetime import UTC, datetime, timedelta, timezone

from vkubelet.times import format_micro_time, format_time, parse_time, utc_now

MOMENT = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)


def test_formats() -> None:
    assert format_time(MOMENT) == "2026-03-04T05:06:07Z"
    assert format_micro_time(MOMENT) == "2026-03-04T05:06:07.000089Z"
    east = MOMENT.astimezone(timezone(timedelta(hours=2)))
    assert format_time(east) == "2026-03-04T05:06:07Z"


def test_parse() -> None:
    assert parse_time(format_micro_time(MOMENT)) == MOMENT
    assert parse_time("2026-03-04T05:06:07Z") == MOMENT.replace(microsecond=0)
    assert parse_time("") is None
    assert parse_time(None) is None
    assert parse_time("yesterday") is None
    assert utc_now().tzinfo is not None
