"""When what is behind counts as lost."""

import asyncio

import pytest

from vkubelet.interface import Gone, PodRef, Reachable, Synced, Unreachable
from vkubelet.node.reachability import Reach, Reachability

pytestmark = pytest.mark.virtual_time


def reach_of(reachability: Reachability) -> Reach:
    return reachability.reach


async def test_from_the_start() -> None:
    reachability = Reachability(30)
    assert reach_of(reachability) is Reach.UNKNOWN
    assert reachability.seconds_to_loss == pytest.approx(30)
    await asyncio.sleep(29)
    assert reach_of(reachability) is Reach.UNKNOWN
    await asyncio.sleep(2)
    assert reach_of(reachability) is Reach.LOST
    assert not reachability.seconds_to_loss
    assert reachability.handle_status(Synced())
    assert reach_of(reachability) is Reach.REACHED


async def test_a_short_absence_does_not_count() -> None:
    reachability = Reachability(30)
    reachability.handle_status(Synced())
    assert reachability.handle_status(Unreachable("x"))
    await asyncio.sleep(29)
    assert not reachability.handle_status(Unreachable("x"))
    assert reach_of(reachability) is Reach.REACHED
    assert reachability.handle_status(Reachable())
    assert not reachability.handle_status(Reachable())
    await asyncio.sleep(60)
    assert reach_of(reachability) is Reach.REACHED


async def test_a_long_absence_counts_from_its_start() -> None:
    reachability = Reachability(30)
    reachability.handle_status(Synced())
    await asyncio.sleep(100)
    reachability.handle_status(Unreachable("x"))
    await asyncio.sleep(20)
    reachability.handle_status(Unreachable("y"))
    assert reachability.seconds_to_loss == pytest.approx(10, abs=0.01)
    await asyncio.sleep(11)
    assert reach_of(reachability) is Reach.LOST


async def test_reachable_alone_is_no_contact() -> None:
    reachability = Reachability(30)
    assert not reachability.handle_status(Unreachable("x"))
    assert not reachability.handle_status(Reachable())
    assert not reachability.handle_status(Gone(PodRef("a", "p", "1")))
    assert reach_of(reachability) is Reach.UNKNOWN


async def test_synced_while_out_of_reach_is_no_contact() -> None:
    reachability = Reachability(30)
    reachability.handle_status(Unreachable("x"))
    reachability.handle_status(Synced())
    assert reach_of(reachability) is Reach.UNKNOWN
    assert reachability.handle_status(Reachable())
    assert reach_of(reachability) is Reach.REACHED
