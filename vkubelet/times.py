"""Wall clock and the API's two time formats."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Now, with its zone."""
    return datetime.now(UTC)


def format_time(moment: datetime) -> str:
    """`Time` of the API: whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: datetime) -> str:
    """`MicroTime` of the API: microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str | None) -> datetime | None:
    """A time of the API; None if it isn't one."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
