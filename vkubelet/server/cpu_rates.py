"""Cores in use, from counters that are looked at now and then."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from vkubelet.interface import UsageSample


@dataclass(frozen=True, slots=True)
class _Known:
    sample: UsageSample
    nano_cores: int | None


class CpuRates:
    """
    Cores in use, from the samples that were seen last; for one node's port.

    It remembers what was in the last `update` only, so it's as large as that.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}

    def update(self, samples: Mapping[Hashable, UsageSample]) -> Mapping[Hashable, int | None]:
        """Return nanocores by key; None where there is just one sample yet."""
        self._known = {
            key: _follow(self._known.get(key), sample) for key, sample in samples.items()
        }
        return {key: known.nano_cores for key, known in self._known.items()}


def _follow(before: _Known | None, sample: UsageSample) -> _Known:
    if before is None or before.sample.started != sample.started:
        return _Known(sample, None)
    seconds = (sample.time - before.sample.time).total_seconds()
    if seconds <= 0:
        return before
    used = sample.cpu_seconds - before.sample.cpu_seconds
    return _Known(sample, round(max(used, 0.0) / seconds * 1e9))
