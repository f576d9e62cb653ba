import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings, strategies as st
from prometheus_client import REGISTRY

from tests.fakes.virtual_time import run_virtual
from vkubelet.errors import RetryError
from vkubelet.kube.errors import TooManyRequestsError, UnreachableError
from vkubelet.kube.workqueue import WorkQueue

pytestmark = pytest.mark.virtual_time


class Reconciler:
    """Records when keys were worked on; what it gives or raises is set by the test."""

    def __init__(self, *, takes_seconds: float = 0.0) -> None:
        self.runs: list[tuple[str, float]] = []
        self.answers: dict[str, list[float | Exception | None]] = {}
        self.takes_seconds = takes_seconds
        self.busy: set[str] = set()
        self.most_busy = 0

    async def reconcile(self, key: str) -> float | None:
        assert key not in self.busy, "two workers on one key"
        self.busy.add(key)
        self.most_busy = max(self.most_busy, len(self.busy))
        self.runs.append((key, round(asyncio.get_running_loop().time(), 3)))
        try:
            if self.takes_seconds:
                await asyncio.sleep(self.takes_seconds)
            answers = self.answers.get(key, [])
            answer = answers.pop(0) if answers else None
        finally:
            self.busy.discard(key)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.runs]

    @property
    def times(self) -> list[float]:
        return [when for _, when in self.runs]


@asynccontextmanager
async def working(
    queue: WorkQueue[str], reconciler: Reconciler, *, workers: int = 2
) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.run(reconciler.reconcile, workers=workers))
        yield
        task.cancel()


async def test_keys_are_worked_on_in_order_and_once() -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler()
    for key in ["a", "b", "a", "c", "b"]:
        queue.add(key)
    assert len(queue) == 3
    async with working(queue, reconciler):
        await asyncio.sleep(1)
    assert reconciler.keys == ["a", "b", "c"]
    assert len(queue) == 0


async def test_shares_take_turns() -> None:
    queue = WorkQueue[str]("test", share_of=lambda key: key[0])
    reconciler = Reconciler()
    for key in ["a1", "a2", "a3", "a4", "b1", "b2", "c1", "a1"]:
        queue.add(key)
    assert len(queue) == 7
    async with working(queue, reconciler, workers=1):
        await asyncio.sleep(1)
    assert reconciler.keys == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


async def test_share_that_keeps_adding_is_one_among_others() -> None:
    """Whatever comes to a busy share meanwhile, a new key of another waits for one of its keys."""
    queue = WorkQueue[str]("test", share_of=lambda key: key[0])
    reconciler = Reconciler(takes_seconds=1.0)
    for number in range(1000):
        queue.add(f"a{number}")
    async with working(queue, reconciler, workers=2):
        for number in range(5):
            await asyncio.sleep(1.5)
            queue.add(f"b{number}")
            queue.add(f"a{number + 1000}")
        await asyncio.sleep(2)
        times = dict(reconciler.runs)
        assert all(times[f"b{number}"] <= (number + 1) * 1.5 + 1 for number in range(5))
        assert len(queue) > 900


async def test_share_is_forgotten_when_it_has_no_keys() -> None:
    queue = WorkQueue[str]("test", share_of=lambda key: key)
    async with working(queue, Reconciler()):
        for number in range(100):
            queue.add(f"key-{number}")
        await asyncio.sleep(1)
    assert len(queue._ready) == 0
    assert queue._ready._shares == {}


async def test_key_added_while_worked_on_runs_once_more() -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler(takes_seconds=10)
    async with working(queue, reconciler):
        queue.add("a")
        await asyncio.sleep(1)
        queue.add("a")
        queue.add("a")
        assert len(queue) == 1
        await asyncio.sleep(100)
    assert reconciler.runs == [("a", 0.0), ("a", 10.0)]


@pytest.mark.parametrize("workers", [1, 3])
async def test_workers_are_bounded(workers: int) -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler(takes_seconds=1)
    async with working(queue, reconciler, workers=workers):
        for number in range(9):
            queue.add(f"k{number}")
        await asyncio.sleep(20)
    assert reconciler.most_busy == workers
    assert max(reconciler.times) == pytest.approx(9 / workers - 1)


async def test_a_slow_key_keeps_no_other_waiting() -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler()
    never = asyncio.Event()

    async def reconcile(key: str) -> float | None:
        if key == "slow":
            await never.wait()
        return await reconciler.reconcile(key)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.run(reconcile, workers=2))
        queue.add("slow")
        queue.add("a")
        queue.add("b")
        await asyncio.sleep(1)
        assert reconciler.keys == ["a", "b"]
        task.cancel()


async def test_earliest_delay_wins() -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler()
    async with working(queue, reconciler):
        queue.add_after("a", 30)
        queue.add_after("a", 10)
        queue.add_after("a", 20)
        assert len(queue) == 1
        await asyncio.sleep(100)
    assert reconciler.times == [10.0]


async def test_delay_of_nothing_or_less_is_at_once() -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler()
    async with working(queue, reconciler):
        queue.add_after("a", -5)
        queue.add_after("b", 0)
        await asyncio.sleep(1)
    assert reconciler.runs == [("a", 0.0), ("b", 0.0)]


async def test_addition_doesnt_take_back_a_delayed_one() -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler()
    async with working(queue, reconciler):
        queue.add_after("a", 30)
        queue.add("a")
        await asyncio.sleep(100)
    assert reconciler.times == [0.0, 30.0]


async def test_returned_seconds_bring_the_key_back() -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler()
    reconciler.answers["a"] = [5.0, 7.0, None]
    async with working(queue, reconciler):
        queue.add("a")
        await asyncio.sleep(100)
    assert reconciler.times == [0.0, 5.0, 12.0]


async def test_failures_back_off_for_ever_up_to_the_cap() -> None:
    queue = WorkQueue[str]("test", base_delay_seconds=1, max_delay_seconds=8)
    reconciler = Reconciler()
    reconciler.answers["a"] = [RetryError("not yet") for _ in range(50)]
    async with working(queue, reconciler):
        queue.add("a")
        await asyncio.sleep(1000)
    times = reconciler.times
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(times) == 51
    for number, gap in enumerate(gaps):
        full = min(2.0**number, 8.0)
        assert full / 2 - 0.01 <= gap <= full + 0.01


async def test_success_forgets_the_failures() -> None:
    queue = WorkQueue[str]("test", base_delay_seconds=1)
    reconciler = Reconciler()
    failures = [UnreachableError("refused") for _ in range(6)]
    reconciler.answers["a"] = [*failures, None, UnreachableError("refused"), None]
    async with working(queue, reconciler):
        queue.add("a")
        await asyncio.sleep(200)
        assert len(reconciler.runs) == 7
        assert len(queue) == 0
        queue.add("a")
        await asyncio.sleep(200)
    assert len(reconciler.runs) == 9
    assert reconciler.times[-1] - reconciler.times[-2] <= 1.01


async def test_server_that_asks_for_patience_gets_it() -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler()
    busy = TooManyRequestsError(429, message="too many")
    busy.retry_after_seconds = 42
    reconciler.answers["a"] = [busy]
    async with working(queue, reconciler):
        queue.add("a")
        await asyncio.sleep(100)
    first, second = reconciler.times
    assert 42 <= second - first <= 63


async def test_keys_that_were_refused_together_dont_come_back_together() -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler()
    for number in range(40):
        busy = TooManyRequestsError(429, message="too many")
        busy.retry_after_seconds = 1
        reconciler.answers[f"key-{number}"] = [busy]
        queue.add(f"key-{number}")
    async with working(queue, reconciler, workers=40):
        await asyncio.sleep(10)
    again = sorted(reconciler.times)[40:]
    assert len(again) == 40
    assert 1 <= again[0] < again[-1] <= 1.5
    assert again[-1] - again[0] > 0.2


async def test_key_that_failed_and_was_added_meanwhile_comes_back_soon_but_not_at_once() -> None:
    queue = WorkQueue[str]("test", base_delay_seconds=60)
    reconciler = Reconciler(takes_seconds=1)
    reconciler.answers["a"] = [UnreachableError("refused"), None]
    async with working(queue, reconciler):
        queue.add("a")
        await asyncio.sleep(0.5)
        queue.add("a")
        await asyncio.sleep(20)
    assert reconciler.times == [0.0, 2.0]


async def test_failures_are_logged_by_kind(caplog: pytest.LogCaptureFixture) -> None:
    queue, reconciler = WorkQueue[str]("test"), Reconciler()
    reconciler.answers = {"passing": [RetryError("not yet")], "bug": [KeyError("oops")]}
    async with working(queue, reconciler):
        queue.add("passing")
        queue.add("bug")
        await asyncio.sleep(1)
    records = {record.getMessage().split(":")[0]: record for record in caplog.records}
    assert records["passing"].levelno == logging.WARNING
    assert records["passing"].exc_info is None
    assert "not yet" in records["passing"].getMessage()
    assert records["bug"].levelno == logging.ERROR
    assert records["bug"].exc_info is not None
    assert sorted(reconciler.keys) == ["bug", "bug", "passing", "passing"]


async def test_cancelling_cancels_the_work_and_leaves_no_timer() -> None:
    queue = WorkQueue[str]("test")
    ended: list[str] = []

    async def reconcile(key: str) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(key)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.run(reconcile, workers=2))
        queue.add("a")
        queue.add("b")
        queue.add_after("c", 500)
        await asyncio.sleep(1)
        task.cancel()
    assert task.cancelled()
    assert sorted(ended) == ["a", "b"]
    await asyncio.sleep(1000)
    assert len(queue) == 0


Operation = tuple[str, str, float]


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "after", "sleep", "fail"]),
            st.sampled_from("abc"),
            st.floats(min_value=0, max_value=20),
        ),
        max_size=30,
    )
)
def test_every_addition_is_followed_by_a_successful_run(operations: list[Operation]) -> None:
    async def main() -> None:
        queue, reconciler = WorkQueue[str]("test", max_delay_seconds=5), Reconciler(takes_seconds=1)
        asked: dict[str, float] = {}
        loop = asyncio.get_running_loop()
        async with working(queue, reconciler):
            for what, key, seconds in operations:
                match what:
                    case "add":
                        queue.add(key)
                        asked[key] = loop.time()
                    case "after":
                        queue.add_after(key, seconds)
                        asked[key] = loop.time()
                    case "sleep":
                        await asyncio.sleep(seconds)
                    case _:
                        reconciler.answers.setdefault(key, []).append(RetryError("not yet"))
            await asyncio.sleep(1000)
            assert len(queue) == 0
        last = dict(reconciler.runs)
        for key, when in asked.items():
            assert last[key] >= round(when, 3)

    run_virtual(main())


async def test_metrics() -> None:
    def read(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(name, {"queue": "measured", **labels}) or 0.0

    queue: WorkQueue[str] = WorkQueue("measured")
    for key in ("a", "b", "c"):
        queue.add(key)
    assert read("vkubelet_queue_depth") == 3

    async def reconcile(key: str) -> None:
        if key == "b":
            raise RetryError("not now")
        if key == "c":
            raise RuntimeError("a bug")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.run(reconcile, workers=1))
        await asyncio.sleep(0.01)
        task.cancel()
    assert read("vkubelet_queue_depth") == 0
    for result in ("done", "failed", "error"):
        assert read("vkubelet_reconciles_total", result=result) == 1
    assert read("vkubelet_reconcile_seconds_count") == 3
