"""Counters from rates."""

from datetime import UTC, datetime, timedelta

import pytest

from provider.stats.counters import FRESH_SECONDS, Rate, UsageCounter

START = datetime(2026, 1, 1, tzinfo=UTC)


def rate(seconds: float, cores: float, *, memory: int = 7, window: float = 15) -> Rate:
    return Rate(
        time=START + timedelta(seconds=seconds),
        window_seconds=window,
        cores=cores,
        memory_bytes=memory,
    )


def cpu_of(counter: UsageCounter) -> float:
    assert counter.sample is not None
    return counter.sample.cpu_seconds


def test_no_sample_yet() -> None:
    assert UsageCounter(START).sample is None


def test_a_fresh_one_is_counted_from_its_start() -> None:
    counter = UsageCounter(START)
    assert counter.take_rate(rate(20, 0.5), START) == 10
    assert cpu_of(counter) == 10


def test_of_an_old_one_only_the_window_counts() -> None:
    counter = UsageCounter(START)
    assert counter.take_rate(rate(FRESH_SECONDS + 1, 2.0), START) == 30


def test_rates_add_up() -> None:
    counter = UsageCounter(START)
    counter.take_rate(rate(15, 1.0), START)
    counter.take_rate(rate(30, 2.0, memory=9), START)
    counter.take_rate(rate(50, 0.0), START)
    counter.take_rate(rate(3600, 0.5, memory=11), START)
    assert cpu_of(counter) == pytest.approx(15 + 30 + 0 + 1775)
    sample = counter.sample
    assert sample is not None
    assert (sample.memory_bytes, sample.time) == (11, START + timedelta(seconds=3600))
    assert sample.started == START


def test_old_news_change_nothing() -> None:
    counter = UsageCounter(START)
    counter.take_rate(rate(30, 1.0), START)
    before = counter.sample
    assert counter.take_rate(rate(30, 5.0), START) == 0
    assert counter.take_rate(rate(15, 5.0), START) == 0
    assert counter.sample == before


def test_a_restart_begins_at_zero() -> None:
    counter = UsageCounter(START)
    counter.take_rate(rate(100, 1.0), START)
    restarted = START + timedelta(seconds=105)
    assert counter.take_rate(rate(115, 2.0), restarted) == 20
    assert cpu_of(counter) == 20
    assert counter.started == restarted


def test_a_sample_from_before_the_start() -> None:
    counter = UsageCounter(START)
    assert counter.take_rate(rate(-5, 2.0), START) == 0
    assert cpu_of(counter) == 0


def test_the_time_never_goes_back() -> None:
    counter = UsageCounter(START)
    counter.add(1, time=START + timedelta(seconds=9), memory_bytes=1)
    counter.add(2, time=START, memory_bytes=2)
    assert counter.sample is not None
    assert (counter.sample.time, counter.sample.cpu_seconds) == (START + timedelta(seconds=9), 3)
