"""Lags between the sides."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from vkubelet.kube.objects import NamespacedName
from vkubelet.pods.lags import PodLags

pytestmark = pytest.mark.virtual_time

KEY = NamespacedName("ns", "pod")


def read(name: str) -> tuple[float, float]:
    """Count and sum."""
    count, total = (
        REGISTRY.get_sample_value(f"vkubelet_pod_{name}_lag_seconds_{part}") or 0.0
        for part in ("count", "sum")
    )
    return count, total


async def test_creation() -> None:
    count, total = read("create")
    lags = PodLags()
    lags.note_pod(KEY)
    await asyncio.sleep(1)
    lags.note_pod(KEY)  # the first time counts
    lags.finish(KEY, created=False, written=False, waiting=True)
    await asyncio.sleep(1)
    lags.finish(KEY, created=True, written=False)
    assert read("create")[0] == count + 1
    assert read("create")[1] == pytest.approx(total + 2, abs=0.1)
    lags.finish(KEY, created=True, written=False)
    assert read("create")[0] == count + 1


async def test_status() -> None:
    count, total = read("status")
    lags = PodLags()
    lags.note_status(KEY)
    await asyncio.sleep(3)
    lags.finish(KEY, created=False, written=True)
    assert read("status")[0] == count + 1
    assert read("status")[1] == pytest.approx(total + 3, abs=0.1)


async def test_what_needs_nothing_isnt_counted() -> None:
    before = read("create"), read("status")
    lags = PodLags()
    lags.note_pod(KEY)
    lags.note_status(KEY)
    lags.finish(KEY, created=False, written=False)
    lags.finish(KEY, created=True, written=True)
    assert (read("create"), read("status")) == before
