"""The process's own figures, off its metrics."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from provider.vitals import Vitals, parse_vitals
from provider.vitals_recorder import (
    MAX_CERTIFICATES,
    WINDOW_SECONDS,
    VitalsRecorder,
    find_quantile,
)
from vkubelet import __version__
from vkubelet.kube.metrics import REQUESTS
from vkubelet.kubelet import CERTIFICATE_EXPIRY
from vkubelet.pods.lags import CREATE_SECONDS


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def certificates() -> Iterator[list[str]]:
    nodes: list[str] = []
    yield nodes
    for node in nodes:
        CERTIFICATE_EXPIRY.remove(node)


def record(recorder: VitalsRecorder, not_ready: str = "") -> Vitals:
    vitals = parse_vitals(recorder.record(not_ready))
    assert vitals is not None
    return vitals


def fail(cluster: str, code: str, times: int = 1) -> None:
    REQUESTS.labels(cluster, "list", code).inc(times)


def test_who_it_is(clock: Clock) -> None:
    vitals = record(VitalsRecorder(clock=clock), "waiting for the first sync")
    assert vitals.version == __version__
    assert vitals.not_ready == "waiting for the first sync"
    assert datetime.fromisoformat(vitals.started_at).tzinfo is UTC


def test_errors_are_counted_lately_and_in_all(clock: Clock) -> None:
    fail("test-a", "500", 7)
    recorder = VitalsRecorder(clock=clock)
    for code in ("error", "401", "403", "429", "503"):
        fail("test-a", code)
    for code in ("200", "404", "409", "410"):
        fail("test-a", code, 100)
    before = record(recorder).api_errors["test-a"]
    assert (before.recent, before.total) == (5, 12)
    clock.now += WINDOW_SECONDS + 5
    fail("test-a", "500")
    assert record(recorder).api_errors["test-a"].recent == 1
    clock.now += WINDOW_SECONDS + 5
    later = record(recorder).api_errors["test-a"]
    assert (later.recent, later.total) == (0, 13)


def test_a_cluster_that_was_never_in_trouble(clock: Clock) -> None:
    recorder = VitalsRecorder(clock=clock)
    fail("test-b", "200")
    assert record(recorder).api_errors["test-b"].total == 0


def test_lags_of_lately(clock: Clock) -> None:
    CREATE_SECONDS.observe(250)
    recorder = VitalsRecorder(clock=clock)
    assert record(recorder).create_lag.p50 is None
    for _ in range(100):
        CREATE_SECONDS.observe(0.07)
    lag = record(recorder).create_lag
    assert lag.p50 == pytest.approx(0.075)
    assert lag.p99 == pytest.approx(0.0995, abs=1e-3)


def test_certificates_that_expire_first(clock: Clock, certificates: list[str]) -> None:
    for number in range(MAX_CERTIFICATES + 2):
        node = f"n{number:03}"
        certificates.append(node)
        CERTIFICATE_EXPIRY.labels(node).set(1_800_000_000 - number)
    vitals = record(VitalsRecorder(clock=clock))
    assert len(vitals.certificates) == MAX_CERTIFICATES
    assert vitals.more_certificates == 2
    assert next(iter(vitals.certificates)) == f"n{MAX_CERTIFICATES + 1:03}"
    assert vitals.certificates["n051"] == "2027-01-15T07:59:09Z"


def test_memory_of_it_is_bounded(clock: Clock) -> None:
    recorder = VitalsRecorder(clock=clock)
    for _ in range(500):
        clock.now += 5
        recorder.record("")
    assert len(recorder._readings) <= WINDOW_SECONDS / 5 + 2


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ({}, 0.5, None),
        ({1.0: 0, math.inf: 0}, 0.5, None),
        ({1.0: 10, math.inf: 10}, 0.5, 0.5),
        ({1.0: 0, 2.0: 10, math.inf: 10}, 0.5, 1.5),
        ({1.0: 0, 2.0: 0, math.inf: 10}, 0.5, 2.0),
        ({1.0: 5, 2.0: 10, math.inf: 10}, 0.99, 1.98),
    ],
)
def test_quantiles(counts: dict[float, float], share: float, value: float | None) -> None:
    assert find_quantile(counts, share) == value
