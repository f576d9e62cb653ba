"""Rates from counters."""

from dataclasses import replace
from datetime import timedelta

from tests.vkubelet.server.usage import STARTED, build_sample
from vkubelet.server.cpu_rates import CpuRates


def test_rates() -> None:
    rates = CpuRates()
    assert rates.update({"a": build_sample(1, age=10)}) == {"a": None}
    assert rates.update({"a": build_sample(2, age=20)}) == {"a": 100_000_000}
    assert rates.update({"a": build_sample(2, age=20)}) == {"a": 100_000_000}
    assert rates.update({"a": build_sample(9, age=15)}) == {"a": 100_000_000}
    assert rates.update({"a": build_sample(1, age=30)}) == {"a": 0}


def test_a_restart_has_no_rate_yet() -> None:
    rates = CpuRates()
    rates.update({"a": build_sample(100, age=10)})
    restarted = replace(build_sample(1, age=20), started=STARTED + timedelta(seconds=15))
    assert rates.update({"a": restarted}) == {"a": None}


def test_what_is_gone_is_forgotten() -> None:
    rates = CpuRates()
    rates.update({"a": build_sample(1, age=10)})
    assert rates.update({}) == {}
    assert rates.update({"a": build_sample(2, age=20)}) == {"a": None}
