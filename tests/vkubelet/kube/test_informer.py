import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.fakes.api_server import ApiCall, Ending, FakeApiServer, WatchList
from tests.fakes.virtual_time import run_virtual
from vkubelet.kube.errors import ForbiddenError, StatusError, UnreachableError
from vkubelet.kube.informer import MAX_DELAY_SECONDS, SILENCE_SECONDS, Informer
from vkubelet.kube.objects import (
    PODS,
    CachedObject,
    KubeObject,
    NamespacedName,
    decode_cached,
)

pytestmark = pytest.mark.virtual_time


def build_pod(name: str, *, namespace: str = "ns", **labels: str) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"nodeName": "node", "futureField": {"kept": True}},
    }


def key(name: str) -> NamespacedName:
    return NamespacedName("ns", name)


class History:
    """A handler that records, and checks that each change fits to what it was told before."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.replayed: dict[NamespacedName, CachedObject] = {}

    def handle(self, old: CachedObject | None, new: CachedObject | None) -> None:
        item = new or old
        assert item is not None
        assert self.replayed.get(item.metadata.key) is old
        if new is None:
            del self.replayed[item.metadata.key]
        else:
            self.replayed[item.metadata.key] = new
        word = "deleted" if new is None else "added" if old is None else "modified"
        self.words.append(f"{word} {item.metadata.name}")

    def take(self) -> list[str]:
        words, self.words = self.words, []
        return words


class Setting:
    """A fake server, and an informer of its pods."""

    def __init__(self, fake: FakeApiServer, informer: Informer[CachedObject]) -> None:
        self.fake = fake
        self.informer = informer
        self.history = History()
        self.failures: list[Exception | None] = []
        informer.add_handler(self.history.handle)
        informer.add_failure_handler(self.failures.append)

    @property
    def names(self) -> set[str]:
        return {item.metadata.name for item in self.informer.store}

    def assert_same(self) -> None:
        """Store, server and what the handlers were told are the same."""
        on_server = {
            NamespacedName(body["metadata"]["namespace"], body["metadata"]["name"]): (
                body["metadata"]["uid"],
                body["metadata"]["resourceVersion"],
            )
            for body in self.fake.objects(PODS)
        }
        for told in ({item.metadata.key: item for item in self.informer.store}, self.replayed):
            assert on_server == {
                name: (item.metadata.uid, item.metadata.resource_version)
                for name, item in told.items()
            }

    @property
    def replayed(self) -> dict[NamespacedName, CachedObject]:
        return self.history.replayed

    @asynccontextmanager
    async def running(self, *, synced: bool = True) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.informer.run(), name="informer")
            if synced:
                await self.informer.wait_synced()
                await self.fake.wait_for_watches()
            yield
            task.cancel()


@asynccontextmanager
async def open_setting() -> AsyncIterator[Setting]:
    async with FakeApiServer() as fake, fake.client("home") as client:
        yield Setting(fake, Informer(client, PODS, decode_cached))


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    async with open_setting() as opened:
        yield opened


def lists(fake: FakeApiServer) -> int:
    """How often everything was asked for."""
    watches = [call for call in fake.calls("watch pods") if "sendInitialEvents" in call.query]
    first_pages = [call for call in fake.calls("list pods") if "continue" not in call.query]
    return len(watches) + len(first_pages)


async def settle(seconds: float = 60.0) -> None:
    await asyncio.sleep(seconds)


# The usual life.


async def test_initial_events_make_it_synced(setting: Setting) -> None:
    for name in "ab":
        setting.fake.put(build_pod(name))
    async with setting.running():
        assert setting.names == {"a", "b"}
        assert setting.history.words == ["added a", "added b"]
    assert [call.verb for call in setting.fake.requests] == ["watch"]
    query = setting.fake.requests[0].query
    assert (query["sendInitialEvents"], query["allowWatchBookmarks"]) == ("true", "true")
    assert 300 <= int(query["timeoutSeconds"]) <= 600
    assert setting.failures == []


async def test_empty_collection_is_synced(setting: Setting) -> None:
    async with setting.running():
        assert len(setting.informer.store) == 0


async def test_changes_reach_store_and_handlers(setting: Setting) -> None:
    async with setting.running():
        setting.fake.put(build_pod("a"))
        await settle()
        setting.fake.put(build_pod("a", app="x"))
        await settle()
        stored = setting.informer.store.get(key("a"))
        assert stored is not None
        assert stored.metadata.labels == {"app": "x"}
        assert stored.decode()["spec"]["futureField"] == {"kept": True}
        setting.fake.remove(PODS, "ns", "a")
        await settle()
        setting.assert_same()
    assert setting.history.words == ["added a", "modified a", "deleted a"]


async def test_handler_added_later_gets_what_is_there(setting: Setting) -> None:
    setting.fake.put(build_pod("a"))
    async with setting.running():
        late = History()
        setting.informer.add_handler(late.handle)
        assert late.words == ["added a"]
        setting.fake.put(build_pod("b"))
        await settle()
        assert late.words == ["added a", "added b"]


async def test_scope_is_asked_for(setting: Setting) -> None:
    async with setting.fake.client("home") as client:
        informer = Informer(
            client,
            PODS,
            decode_cached,
            namespace="ns",
            label_selector="app in (x,y)",
            field_selector="spec.nodeName=node",
        )
        scoped = Setting(setting.fake, informer)
        setting.fake.put(build_pod("a", app="x"))
        setting.fake.put(build_pod("b", app="z"))
        setting.fake.put(build_pod("c", namespace="other", app="x"))
        async with scoped.running():
            assert scoped.names == {"a"}
            setting.fake.put(build_pod("b", app="y"))
            setting.fake.put(build_pod("a", app="z"))
            await settle()
            assert scoped.names == {"b"}
        assert scoped.history.words == ["added a", "added b", "deleted a"]


async def test_indexes_follow(setting: Setting) -> None:
    def index_app(item: CachedObject) -> Iterable[str]:
        return [item.metadata.labels.get("app", "")]

    async with setting.fake.client("home") as client:
        informer = Informer(client, PODS, decode_cached, indexers={"app": index_app})
        indexed = Setting(setting.fake, informer)
        setting.fake.put(build_pod("a", app="x"))
        async with indexed.running():
            setting.fake.put(build_pod("b", app="x"))
            setting.fake.put(build_pod("a", app="y"))
            await settle()
            names = [item.metadata.name for item in informer.store.by_index("app", "x")]
            assert names == ["b"]


async def test_stream_that_the_server_ends_is_followed_by_the_next(setting: Setting) -> None:
    async with setting.running():
        await settle(3000)
        setting.fake.put(build_pod("a"))
        await settle()
        setting.assert_same()
    assert lists(setting.fake) == 1
    assert 5 <= len(setting.fake.calls("watch pods")) <= 11
    assert setting.failures == []


async def test_cancelling_closes_the_watch(setting: Setting) -> None:
    async with setting.running():
        assert setting.fake.watch_count() == 1
    await settle(1)
    assert setting.fake.watch_count() == 0


# Servers without initial events.


async def test_server_that_refuses_initial_events_is_listed_by_pages(setting: Setting) -> None:
    setting.fake.watch_list = WatchList.FORBIDDEN
    for number in range(1200):
        setting.fake.put(build_pod(f"p{number:04}"))
    async with setting.running():
        assert len(setting.informer.store) == 1200
        stored = setting.informer.store.get(key("p0000"))
        assert stored is not None
        assert stored.decode()["kind"] == "Pod"
        setting.fake.put(build_pod("late"))
        await settle()
        setting.assert_same()
        verbs = [call.verb for call in setting.fake.requests]
        assert verbs == ["watch", "list", "list", "list", "watch"]

        setting.fake.expire_history()
        setting.fake.remove(PODS, "ns", "late")
        setting.fake.cut_watches()
        await settle()
        setting.assert_same()
    refused = [call for call in setting.fake.requests if "sendInitialEvents" in call.query]
    assert len(refused) == 1, "asked once, then remembered"
    assert setting.failures == []


async def test_server_that_ignores_initial_events_is_noticed(setting: Setting) -> None:
    setting.fake.watch_list = WatchList.IGNORED
    setting.fake.put(build_pod("a"))
    async with setting.running():
        assert asyncio.get_running_loop().time() == pytest.approx(15, abs=1)
        assert setting.history.words == ["added a"]
        setting.fake.put(build_pod("b"))
        await settle()
        setting.assert_same()


async def test_bookmark_without_an_end_tells_that_initial_events_are_ignored(
    setting: Setting,
) -> None:
    setting.fake.watch_list = WatchList.IGNORED
    async with setting.running(synced=False):
        await setting.fake.wait_for_watches()
        setting.fake.send_bookmarks()
        await setting.informer.wait_synced()
        assert asyncio.get_running_loop().time() < 1


async def test_snapshot_that_expires_between_pages_is_listed_at_once(setting: Setting) -> None:
    setting.fake.watch_list = WatchList.FORBIDDEN
    for number in range(600):
        setting.fake.put(build_pod(f"p{number}"))

    def second_page(call: ApiCall) -> bool:
        return call.verb == "list" and "continue" in call.query

    setting.fake.fail_next(second_page, 410, reason="Expired")
    async with setting.running():
        setting.assert_same()
    assert [call.query["limit"] for call in setting.fake.calls("list pods")] == ["500", "500", "0"]


# What goes wrong.


@pytest.mark.parametrize("watch_list", [WatchList.SUPPORTED, WatchList.FORBIDDEN])
@pytest.mark.parametrize("as_event", [False, True])
async def test_expired_version_is_listed_again_with_the_differences(
    setting: Setting, *, watch_list: WatchList, as_event: bool
) -> None:
    setting.fake.watch_list = watch_list
    for name in ["stays", "changes", "goes", "is-made-again"]:
        setting.fake.put(build_pod(name))
    async with setting.running():
        await settle()
        setting.history.take()
        setting.fake.mute_watches()
        setting.fake.put(build_pod("changes", app="x"))
        setting.fake.remove(PODS, "ns", "goes")
        setting.fake.remove(PODS, "ns", "is-made-again")
        setting.fake.put(build_pod("is-made-again"))
        setting.fake.put(build_pod("comes"))
        if as_event:
            setting.fake.fail_next("watch pods", 410, reason="Expired", as_event=True)
        else:
            setting.fake.expire_history()
        setting.fake.cut_watches()
        await settle()
        setting.assert_same()
    assert sorted(setting.history.words) == [
        "added comes",
        "deleted goes",
        "modified changes",
        "modified is-made-again",
    ]
    assert setting.failures == []


async def test_versions_that_stay_expired_are_no_busy_loop(setting: Setting) -> None:
    setting.fake.watch_list = WatchList.FORBIDDEN
    async with setting.running():
        setting.fake.fail_next("watch pods", 410, reason="Expired", times=1000, as_event=True)
        setting.fake.cut_watches()
        await settle(300)
    assert len(setting.fake.requests) < 60


@pytest.mark.parametrize("ending", list(Ending))
async def test_cut_stream_goes_on_where_it_was(setting: Setting, ending: Ending) -> None:
    setting.fake.put(build_pod("a"))
    async with setting.running():
        await settle()
        setting.fake.put(build_pod("b"))
        await settle(1)
        version = setting.fake.get(PODS, "ns", "b")["metadata"]["resourceVersion"]
        setting.fake.mute_watches()
        setting.fake.put(build_pod("c"))
        setting.fake.remove(PODS, "ns", "a")
        before = asyncio.get_running_loop().time()
        setting.fake.cut_watches(ending)
        calls = await setting.fake.wait_for_calls("watch pods", 2)
        assert asyncio.get_running_loop().time() - before < 0.1, "at once: the stream had held"
        assert calls[-1].query["resourceVersion"] == version
        await settle()
        setting.assert_same()
    assert lists(setting.fake) == 1
    assert setting.failures == []


async def test_bookmarks_keep_the_version_fresh(setting: Setting) -> None:
    async with setting.running():
        other = build_pod("x")
        other["kind"] = "Elsewhere"
        for _ in range(5):
            setting.fake.put(other)
        await settle(70)
        setting.fake.cut_watches()
        calls = await setting.fake.wait_for_calls("watch pods", 2)
        assert calls[-1].query["resourceVersion"] == "105"


async def test_empty_streams_are_no_busy_loop(setting: Setting) -> None:
    async with setting.running():
        setting.fake.end_next("watch pods", times=1000)
        setting.fake.cut_watches()
        await settle(300)
        assert 8 <= len(setting.fake.calls("watch pods")) <= 40
    assert lists(setting.fake) == 1


async def test_delays_are_capped(setting: Setting) -> None:
    times: list[float] = []
    setting.informer.add_failure_handler(lambda _: times.append(asyncio.get_running_loop().time()))
    setting.fake.fail_next("*", 500, times=10_000)
    async with setting.running(synced=False):
        await settle(3600)
    assert 110 <= len(times) <= 260
    gaps = [later - earlier for earlier, later in itertools.pairwise(times[10:])]
    assert all(MAX_DELAY_SECONDS / 2 <= gap <= MAX_DELAY_SECONDS + 0.1 for gap in gaps)


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
async def test_failing_list_is_retried_and_told_of(setting: Setting, status: int) -> None:
    setting.fake.put(build_pod("a"))
    setting.fake.fail_next("* pods", status, times=3)
    async with setting.running(synced=False):
        await settle()
        setting.assert_same()
    assert setting.failures[-1] is None
    assert all(isinstance(error, StatusError) for error in setting.failures[:-1])
    assert len(setting.failures) >= 2


async def test_failing_watch_is_retried_without_listing_again(setting: Setting) -> None:
    async with setting.running():
        await settle()
        setting.fake.fail_next("watch pods", 403, times=3, message="no right to watch")
        setting.fake.cut_watches()
        setting.fake.put(build_pod("a"))
        await settle()
        setting.assert_same()
    assert lists(setting.fake) == 1
    assert [type(error) for error in setting.failures] == [ForbiddenError] * 3 + [type(None)]


async def test_busy_server_is_left_alone_as_long_as_it_asks(setting: Setting) -> None:
    async with setting.running():
        await settle()
        count = len(setting.fake.requests)
        setting.fake.fail_next("watch pods", 429, retry_after_seconds=20, times=3)
        setting.fake.cut_watches()
        await settle(59)
        assert len(setting.fake.requests) - count <= 4
        await settle(60)
        setting.fake.put(build_pod("a"))
        await settle(1)
        setting.assert_same()


async def test_busy_server_in_the_stream(setting: Setting) -> None:
    setting.fake.fail_next("watch pods", 429, retry_after_seconds=50, as_event=True)
    async with setting.running():
        assert asyncio.get_running_loop().time() == pytest.approx(50, abs=1)


async def test_refused_connections_then_back(setting: Setting) -> None:
    setting.fake.put(build_pod("a"))
    setting.fake.put(build_pod("b"))
    async with setting.running():
        await settle()
        await setting.fake.stop()
        await settle(300)
        assert setting.names == {"a", "b"}, "what was known stays"
        assert setting.failures
        assert all(isinstance(error, UnreachableError) for error in setting.failures)
        setting.fake.remove(PODS, "ns", "a")
        await setting.fake.start()
        await settle()
        setting.assert_same()
        assert setting.failures[-1] is None
    assert lists(setting.fake) == 1


async def test_refusal_of_a_server_that_starts_passes_quickly(setting: Setting) -> None:
    async with setting.running():
        await setting.fake.stop()
        await settle(300)  # the back-off is at its longest
        setting.fake.fail_next("watch pods", 403)  # its rights aren't loaded yet
        await setting.fake.start()
        setting.fake.put(build_pod("new"))
        await settle(MAX_DELAY_SECONDS + 1.0)
        setting.assert_same()
    assert [type(error) for error in setting.failures[-2:]] == [ForbiddenError, type(None)]


async def test_return_is_told_of_before_any_event(setting: Setting) -> None:
    async with setting.running():
        await settle()
        setting.fake.fail_next("watch pods", 500)
        setting.fake.cut_watches()
        await settle(2)
        assert setting.failures[-1] is None


async def test_server_that_is_down_at_the_start(setting: Setting) -> None:
    setting.fake.put(build_pod("a"))
    await setting.fake.stop()
    async with setting.running(synced=False):
        await settle()
        assert not setting.names
        await setting.fake.start()
        await settle()
        setting.assert_same()


async def test_slow_answers(setting: Setting) -> None:
    setting.fake.put(build_pod("a"))
    setting.fake.delay_next("* pods", 10)
    async with setting.running():
        setting.assert_same()
    assert setting.failures == []


async def test_answers_that_never_come(setting: Setting) -> None:
    setting.fake.delay_next("* pods", 10_000, times=2)
    async with setting.running(synced=False):
        await settle(120)
        assert setting.informer.synced
    assert [type(error) for error in setting.failures][-2:] == [UnreachableError, type(None)]


@pytest.mark.parametrize("watch_list", [WatchList.SUPPORTED, WatchList.FORBIDDEN])
async def test_dropped_and_half_answers(setting: Setting, watch_list: WatchList) -> None:
    setting.fake.watch_list = watch_list
    setting.fake.put(build_pod("a"))
    setting.fake.drop_next("* pods", times=2)
    setting.fake.cut_body_next("list pods")
    async with setting.running(synced=False):
        await settle()
        setting.assert_same()


async def test_stream_cut_within_the_initial_events_starts_afresh(setting: Setting) -> None:
    setting.fake.watch_list = WatchList.IGNORED  # the end never comes
    setting.fake.put(build_pod("a"))
    async with setting.running(synced=False):
        await setting.fake.wait_for_watches()
        await settle(1)
        assert setting.history.words == ["added a"]
        setting.fake.watch_list = WatchList.SUPPORTED
        setting.fake.remove(PODS, "ns", "a")
        setting.fake.cut_watches()
        await settle()
        assert setting.informer.synced
        setting.assert_same()


async def test_dead_connection_is_noticed(setting: Setting) -> None:
    async with setting.running():
        await settle()
        setting.fake.mute_watches()
        setting.fake.put(build_pod("a"))
        await settle(230)
        setting.assert_same()
    assert lists(setting.fake) == 1
    assert len(setting.fake.calls("watch pods")) == 2


async def test_new_cluster_under_the_old_address_is_noticed(setting: Setting) -> None:
    setting.fake.put(build_pod("a"))
    setting.fake.put(build_pod("stays"))
    async with setting.running():
        await settle()
        setting.fake.rebuild()
        setting.fake.put(build_pod("stays"))
        setting.fake.put(build_pod("b"))
        await settle(2 * SILENCE_SECONDS + 60)
        setting.assert_same()


# What comes and can't be used.


async def test_failing_handler_is_a_logged_bug(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object, __: object) -> None:
        raise RuntimeError("handler's bug")

    later = History()
    setting.informer.add_handler(fail)
    setting.informer.add_failure_handler(lambda _: fail(None, None))
    setting.informer.add_handler(later.handle)
    setting.fake.fail_next("watch pods", 500)
    setting.fake.put(build_pod("a"))
    async with setting.running():
        setting.fake.put(build_pod("b"))
        await settle()
    assert later.words == ["added a", "added b"]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 4
    assert all(record.exc_info is not None for record in errors)
    assert any(record.getMessage().startswith("ns/a: ") for record in errors)


class Strict(msgspec.Struct, frozen=True):
    replicas: int


class StrictSpec(msgspec.Struct, frozen=True):
    spec: Strict


def decode_strictly(raw: bytes) -> CachedObject:
    msgspec.json.decode(raw, type=StrictSpec)
    if b"bug" in raw:
        raise KeyError("decoder's bug")
    return decode_cached(raw)


@pytest.mark.parametrize("watch_list", [WatchList.SUPPORTED, WatchList.FORBIDDEN])
async def test_object_that_cant_be_decoded_is_left_out(
    setting: Setting, watch_list: WatchList, caplog: pytest.LogCaptureFixture
) -> None:
    def build(name: str, replicas: object) -> KubeObject:
        return {**build_pod(name), "spec": {"replicas": replicas}}

    setting.fake.watch_list = watch_list
    async with setting.fake.client("home") as client:
        strict = Setting(setting.fake, Informer(client, PODS, decode_strictly))
        setting.fake.put(build("good", 1))
        setting.fake.put(build("bad", "many"))
        setting.fake.put(build("bug", 1))
        async with strict.running():
            assert strict.names == {"good"}
            assert strict.informer.synced

            setting.fake.put(build("good", "many"))
            setting.fake.put(build("bad", 2))
            await settle()
            assert strict.names == {"good", "bad"}, "the last good state stays"

            setting.fake.expire_history()
            setting.fake.cut_watches()
            await settle()
            assert strict.names == {"good", "bad"}

            setting.fake.remove(PODS, "ns", "good")
            await settle()
            assert strict.names == {"bad"}
    assert strict.failures == []
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert {record.getMessage().split(":")[0] for record in errors} == {
        "ns/bad",
        "ns/good",
        "ns/bug",
    }


async def test_foreign_things_in_the_stream_are_ignored(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    async with setting.running():
        setting.fake.send_event("DELETED", status)
        setting.fake.send_event("ADDED", status)
        setting.fake.send_event("ADDED", {"metadata": {"name": 7}})
        setting.fake.send_event("UNHEARD-OF", build_pod("x"))
        setting.fake.send_event("DELETED", build_pod("never-there"))
        setting.fake.put(build_pod("a"))
        await settle(1)
        setting.assert_same()
    assert len(setting.fake.calls("watch pods")) == 1
    assert setting.history.words == ["added a"]
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 4


@pytest.mark.parametrize("line", [b"garbage\n", b'{"type":"ADDED"}\n', b"[1]\n", b"\xff\xfe\n"])
async def test_garbled_stream_is_opened_again(setting: Setting, line: bytes) -> None:
    async with setting.running():
        await settle()
        setting.fake.send_line(line)
        setting.fake.put(build_pod("a"))
        await settle()
        setting.assert_same()
    assert lists(setting.fake) == 1


# Anything, in any order.

Step = tuple[str, str, int]
STEPS = [
    *["put", "remove"] * 4,
    "sleep",
    "cut",
    "expire",
    "fail",
    "gone",
    "empty",
    "drop",
    "half",
    "mute",
    "bookmark",
    "restart",
    "busy",
]


async def take_step(  # noqa: C901, PLR0912 - a table in the shape of a match
    fake: FakeApiServer, what: str, name: str, number: int
) -> None:
    match what:
        case "put":
            fake.put(build_pod(name, value=str(number)))
        case "remove" if fake.find(PODS, "ns", name):
            fake.remove(PODS, "ns", name)
        case "sleep":
            await asyncio.sleep(number**3)
        case "cut":
            fake.cut_watches(list(Ending)[number % 3])
        case "expire":
            fake.mute_watches()
            fake.expire_history()
        case "fail":
            fake.fail_next("* pods", 500 + number % 4, times=1 + number % 3)
        case "gone":
            fake.fail_next("* pods", 410, reason="Expired", as_event=number % 2 == 0)
        case "empty":
            fake.end_next(times=1 + number % 3)
        case "drop":
            fake.drop_next("* pods", times=1 + number % 3)
        case "half":
            fake.cut_body_next("list pods")
        case "mute":
            fake.mute_watches()
        case "bookmark":
            fake.send_bookmarks()
        case "restart":
            await fake.stop()
            await asyncio.sleep(number**2)
            await fake.start()
        case "busy":
            fake.fail_next("* pods", 429, retry_after_seconds=number)
        case _:
            pass


@settings(max_examples=40)
@given(
    st.sampled_from(WatchList),
    st.lists(
        st.tuples(
            st.sampled_from(STEPS), st.sampled_from("abcde"), st.integers(min_value=0, max_value=9)
        ),
        max_size=25,
    ),
)
def test_store_ends_as_the_server_whatever_happens(
    watch_list: WatchList, steps: list[Step]
) -> None:
    async def main() -> None:
        async with open_setting() as setting:
            setting.fake.watch_list = watch_list
            async with setting.running(synced=False):
                for what, name, number in steps:
                    await take_step(setting.fake, what, name, number)
                    await asyncio.sleep(0.1)
                setting.fake.heal()
                await asyncio.sleep(SILENCE_SECONDS + MAX_DELAY_SECONDS + 60)
                assert setting.informer.synced
                setting.assert_same()
            spent = asyncio.get_running_loop().time()
            assert len(setting.fake.requests) < 60 + spent / 5

    run_virtual(main())
