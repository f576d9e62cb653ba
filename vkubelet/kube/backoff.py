"""How long to wait before the next try."""

import random

# Beyond this many doublings every sensible cap is reached; keeps the power small.
_MAX_DOUBLINGS = 32


def compute_delay(failures: int, *, base_seconds: float, max_seconds: float) -> float:
    """
    Seconds to wait after `failures` failures in a row (1 or more), doubling, capped, jittered.

    Half of the delay is random, so that those who failed together don't come back together.
    """
    doublings = min(max(failures, 1) - 1, _MAX_DOUBLINGS)
    return jitter(min(base_seconds * 2**doublings, max_seconds) / 2, spread=1.0)


def spread_out(retry_after_seconds: float) -> float:
    """
    Seconds to wait when a busy server asks for patience: not less, and up to half as much again.

    It asks many at once for the same; if they all came back together they'd be too many again.
    """
    return jitter(retry_after_seconds, spread=0.5)


def jitter(seconds: float, *, spread: float) -> float:
    """At least `seconds`, at most `1 + spread` times that, evenly distributed."""
    return seconds * (1 + spread * random.random())  # noqa: S311 - no secret depends on it
