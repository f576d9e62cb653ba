"""Figures that are measured, and what they should be."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NOISE = 10.0
"""No machine is so busy that a figure grows by more than that; what does is broken."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """What was measured didn't do what it should: its figures say nothing."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """
    A figure.

    Attributes:
        bench: What was run.
        name: What was measured.
        value: How much it is.
        unit: Of what.
        target: How much it may be; None: it's just shown.
        steady: Whether it's the same on a busy machine, as memory is.
        at_least: Whether the target is the least, rather than the most, that it may be.
    """

    bench: str
    name: str
    value: float
    unit: str
    target: float | None = None
    steady: bool = False
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the target is met."""
        return self._is_within(1.0)

    @property
    def is_plausible(self) -> bool:
        """Whether no noise explains it: a steady one meets its target, others come near it."""
        return self._is_within(1.0 if self.steady else NOISE)

    @property
    def shown_target(self) -> str:
        """The target for a table; empty if there is none."""
        if self.target is None:
            return ""
        return f"{'≥' if self.at_least else '≤'} {self.target:g} {self.unit}"

    def _is_within(self, factor: float) -> bool:
        if self.target is None:
            return True
        if self.at_least:
            return self.value >= self.target / factor
        return self.value <= self.target * factor

    def encode(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**asdict(self), "value": round(self.value, 3), "met": self.is_met}


@dataclass(frozen=True)
class Usage:
    """What a process has used so far."""

    cpu_seconds: float
    rss_mib: float


def read_usage(pid: int) -> Usage:
    """Read what a process has used, its threads included."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Usage((int(stat[11]) + int(stat[12])) / TICKS, pages * PAGE_BYTES / 2**20)
