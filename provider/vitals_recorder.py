"""Reads the process's vitals off its own metrics."""

import time
from collections import Counter as Tally, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from prometheus_client import Histogram

from provider.vitals import ApiErrors, Lag, Vitals
from vkubelet import __version__
from vkubelet.kube.metrics import REQUESTS
from vkubelet.kubelet import CERTIFICATE_EXPIRY
from vkubelet.pods.lags import CREATE_SECONDS, STATUS_SECONDS
from vkubelet.times import format_time, utc_now

WINDOW_SECONDS = 300.0
"""What "recent" means."""

MAX_CERTIFICATES = 50
"""Certificates that are told of, those that expire first: an annotation shouldn't grow large."""

_REFUSALS = frozenset({"error", "401", "403", "429"})


@dataclass(frozen=True, slots=True)
class _Reading:
    """Counters at a moment."""

    at: float
    errors: Mapping[str, int]
    creates: Mapping[float, float]
    statuses: Mapping[float, float]


class VitalsRecorder:
    """Reads the process's own metrics, and remembers them for as long as "recent" means."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Start the record.

        Args:
            clock: Seconds, of any origin.
        """
        self._clock = clock
        self._started_at = format_time(utc_now())
        self._readings: deque[_Reading] = deque([self._read()])

    def record(self, not_ready: str) -> str:
        """
        Take a reading and write the figures as JSON.

        Args:
            not_ready: Why the process isn't ready, "" if it is.
        """
        now = self._read()
        while len(self._readings) > 1 and self._readings[1].at <= now.at - WINDOW_SECONDS:
            self._readings.popleft()
        before = self._readings[0]
        self._readings.append(now)
        certificates = _read_certificates()
        vitals = Vitals(
            version=__version__,
            started_at=self._started_at,
            not_ready=not_ready,
            api_errors={
                cluster: ApiErrors(recent=total - before.errors.get(cluster, 0), total=total)
                for cluster, total in now.errors.items()
            },
            create_lag=_build_lag(before.creates, now.creates),
            status_lag=_build_lag(before.statuses, now.statuses),
            certificates=dict(list(certificates.items())[:MAX_CERTIFICATES]),
            more_certificates=max(len(certificates) - MAX_CERTIFICATES, 0),
        )
        return msgspec.json.encode(vitals).decode()

    def _read(self) -> _Reading:
        return _Reading(
            self._clock(),
            _read_errors(),
            _read_buckets(CREATE_SECONDS),
            _read_buckets(STATUS_SECONDS),
        )


def _read_errors() -> dict[str, int]:
    """Count the requests that failed, by cluster; one that was asked at all is there."""
    errors: Tally[str] = Tally()
    for family in REQUESTS.collect():
        for sample in family.samples:
            if sample.name.endswith("_total"):
                code = sample.labels["code"]
                is_error = code in _REFUSALS or code.startswith("5")
                errors[sample.labels["cluster"]] += int(sample.value) if is_error else 0
    return dict(errors)


def _read_buckets(histogram: Histogram) -> dict[float, float]:
    """Read how many observations there are up to each bound."""
    return {
        float(sample.labels["le"]): sample.value
        for family in histogram.collect()
        for sample in family.samples
        if sample.name.endswith("_bucket")
    }


def _read_certificates() -> dict[str, str]:
    """Read when certificates expire; the first one first."""
    expiries = [
        (sample.value, sample.labels["node"])
        for family in CERTIFICATE_EXPIRY.collect()
        for sample in family.samples
    ]
    return {
        node: format_time(datetime.fromtimestamp(at, UTC)) for at, node in sorted(expiries) if at
    }


def _build_lag(before: Mapping[float, float], now: Mapping[float, float]) -> Lag:
    counts = {bound: count - before.get(bound, 0) for bound, count in now.items()}
    return Lag(p50=find_quantile(counts, 0.5), p99=find_quantile(counts, 0.99))


def find_quantile(counts: Mapping[float, float], share: float) -> float | None:
    """
    Estimate a quantile as Prometheus does: even within a bucket.

    Args:
        counts: Observations up to each upper bound, infinity among them.
        share: Which quantile, 0 to 1.

    Returns:
        None if there are no observations; the last bound for what is beyond it.
    """
    bounds = sorted(counts)
    total = counts[bounds[-1]] if bounds else 0
    if not total:
        return None
    rank = share * total
    lower, below = 0.0, 0.0
    for bound in bounds[:-1]:
        count = counts[bound]
        if count >= rank:
            within = (rank - below) / (count - below) if count > below else 1.0
            return round(lower + (bound - lower) * within, 4)
        lower, below = bound, count
    return lower
