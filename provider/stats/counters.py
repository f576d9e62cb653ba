"""Counters that only grow, from the rates that a metrics API gives."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from vkubelet.interface import UsageSample

FRESH_SECONDS: Final = 120.0
"""
Whoever started so short a while before its first sample has that rate for its whole life.

Of others only the sample's own window is counted: after a restart of this process they'd jump, and
whoever derives rates from the counter would see a peak.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """
    Use as a metrics API tells it.

    Attributes:
        time: End of the window.
        window_seconds: What the rate is the average of.
        cores: cpu.
        memory_bytes: Working set, now.
    """

    time: datetime
    window_seconds: float
    cores: float
    memory_bytes: int


class UsageCounter:
    """Cumulative use of one container, pod or node, since its start."""

    def __init__(self, started: datetime) -> None:
        self._started = started
        self._time: datetime | None = None
        self._cpu_seconds = 0.0
        self._memory_bytes = 0

    @property
    def started(self) -> datetime:
        """Since when it counts."""
        return self._started

    @property
    def sample(self) -> UsageSample | None:
        """The latest; None before the first."""
        if self._time is None:
            return None
        return UsageSample(
            time=self._time,
            cpu_seconds=self._cpu_seconds,
            memory_bytes=self._memory_bytes,
            started=self._started,
        )

    def take_rate(self, rate: Rate, started: datetime) -> float:
        """
        Take a rate, and return the core-seconds that it adds; none if it isn't newer.

        Another start begins at zero.
        """
        if started != self._started:
            self._started, self._time, self._cpu_seconds = started, None, 0.0
        seconds = self._count_seconds(rate)
        if seconds < 0:
            return 0.0
        added = rate.cores * seconds
        self.add(added, time=rate.time, memory_bytes=rate.memory_bytes)
        return added

    def add(self, cpu_seconds: float, *, time: datetime, memory_bytes: int) -> None:
        """Add what parts have used; the time never goes back."""
        self._cpu_seconds += cpu_seconds
        self._memory_bytes = memory_bytes
        self._time = time if self._time is None else max(self._time, time)

    def _count_seconds(self, rate: Rate) -> float:
        """Return for how long a rate stands; negative if it's of no use."""
        if self._time is not None:
            seconds = (rate.time - self._time).total_seconds()
            return seconds if seconds > 0 else -1.0
        age = max((rate.time - self._started).total_seconds(), 0.0)
        return age if age <= FRESH_SECONDS else min(rate.window_seconds, age)
