"""
How the process fares, in a few figures that others can read from afar.

They stand in an annotation of the lock, which is written every few seconds anyway: so they can be
seen wherever the home API can be reached, whether the process runs in a pod or elsewhere.
"""

import msgspec


class ApiErrors(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Requests that an API server didn't answer, or refused as no healthy one does."""

    recent: int = 0
    total: int = 0


class Lag(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How far behind recent changes were written, in seconds; None: there were none."""

    p50: float | None = None
    p99: float | None = None


class Vitals(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """
    The figures.

    Attributes:
        version: Of the program.
        started_at: When the process started, a time of the API.
        not_ready: Why it isn't ready, "" if it is.
        api_errors: By cluster, "home" and "remote".
        create_lag: From when a home pod was seen until its remote pod was made.
        status_lag: From when a remote status was seen until home's was written.
        certificates: When serving certificates expire, by virtual node; the first ones.
        more_certificates: How many others there are.
    """

    version: str = ""
    started_at: str = ""
    not_ready: str = ""
    api_errors: dict[str, ApiErrors] = {}
    create_lag: Lag = Lag()
    status_lag: Lag = Lag()
    certificates: dict[str, str] = {}
    more_certificates: int = 0


def parse_vitals(text: str) -> Vitals | None:
    """Read what a process wrote, whatever its version; None if it can't be read."""
    try:
        return msgspec.json.decode(text.encode(), type=Vitals)
    except msgspec.MsgspecError:
        return None
