"""
A stateful Kubernetes API server in this process, over HTTP on loopback, with faults on demand.

It keeps objects of any resource and does with them what kube-apiserver does, as far as this
project relies on it: versions, watches with bookmarks and initial events, graceful pod deletion,
finalizers, subresources, preconditions, the three patches and (loosely: no conflicts) server-side
apply. Items of a list come without apiVersion and kind, as from a real server. Validation,
defaults, quotas and garbage collection are left out.

    async with FakeApiServer() as fake, fake.client("home") as client:
        fake.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": "p"}})
        fake.fail_next("watch pods", 410, as_event=True)
        fake.handle("create pods/eviction", refuse)
        ...
        assert [call.body for call in fake.calls("create pods")] == [...]
"""

import asyncio
import inspect
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import msgspec
from aiohttp import web

from tests.fakes.api_answers import ApiAnswers, json_response
from tests.fakes.api_calls import ApiCall, Fault, Matcher, matches, read_call
from tests.fakes.api_objects import ApiFailureError, resource_for
from tests.fakes.api_state import ApiState
from tests.fakes.api_watch import Ending, Watch, WatchList, encode_event
from vkubelet.kube.access import ClusterAccess, load_kubeconfig
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import KubeObject, NamespacedName, Resource

__all__ = ["ApiCall", "ApiFailureError", "Ending", "FakeApiServer", "Matcher", "WatchList"]

Hook: TypeAlias = Callable[
    [ApiCall], KubeObject | web.StreamResponse | Awaitable[KubeObject | web.StreamResponse]
]
"""Answers in place of the fake: an object or any aiohttp response; may raise ApiFailureError."""


class FakeApiServer:
    """
    The server; an async context manager that starts and stops it.

    Attributes:
        requests: Every call that came, in order, failed ones too.
        tokens: Bearer tokens that are let in; None (default) lets everybody in.
        watch_list: What `sendInitialEvents` gets.
    """

    def __init__(self) -> None:
        self.requests: list[ApiCall] = []
        self.tokens: set[str] | None = None
        self.watch_list = WatchList.SUPPORTED
        self._state = ApiState(self._wake_watches)
        self._hooks: dict[str, Hook] = {}
        self._faults: list[Fault] = []
        self._watches: list[Watch] = []
        self._answers = ApiAnswers(self._state)
        self._folder: tempfile.TemporaryDirectory[str]
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._progress = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="fake-api-")
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        self._folder.cleanup()

    # Life, and how to get to it.

    async def start(self) -> None:
        """Listen, on the port it had before if it was stopped; the state is as it was."""
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port and every connection: from now on connections are refused."""
        self.cut_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def build_kubeconfig(self, *, token: str = "") -> KubeObject:
        """The kubeconfig that leads here."""
        user = {"token": token} if token else {}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": user}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }

    def write_kubeconfig(self, name: str = "kubeconfig", *, token: str = "") -> Path:
        """Write a kubeconfig that leads here to a file that stays until the fake ends."""
        path = Path(self._folder.name, name)
        path.write_bytes(msgspec.json.encode(self.build_kubeconfig(token=token)))
        return path

    async def access(self, *, token: str = "") -> ClusterAccess:
        """Access by a kubeconfig file."""
        path = self.write_kubeconfig(f"kubeconfig-{token}", token=token)
        return await load_kubeconfig(path, None)

    @asynccontextmanager
    async def client(self, name: str, *, token: str = "") -> AsyncIterator[KubeClient]:
        async with KubeClient(await self.access(token=token), name=name) as client:
            yield client

    # State, directly.

    def put(self, body: KubeObject, resource: Resource | None = None) -> KubeObject:
        """Store an object as it is, status too, created or replaced; returns what clients see."""
        return self._state.put(resource or resource_for(body), body)

    def get(self, resource: Resource, namespace: str, name: str) -> KubeObject:
        """The object; ApiFailureError if there is none. Never mutate it."""
        return self._state.read(resource, NamespacedName(namespace, name))

    def find(self, resource: Resource, namespace: str, name: str) -> KubeObject | None:
        """The object, None if there is none."""
        return self._state.collection(resource).get(NamespacedName(namespace, name))

    def objects(self, resource: Resource, namespace: str = "") -> list[KubeObject]:
        """All objects of a resource, by key."""
        return self._state.objects(resource, namespace)

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        """Have an object vanish, whatever its finalizers and grace."""
        self._state.remove(resource, NamespacedName(namespace, name))

    # What was asked.

    def calls(self, matcher: Matcher) -> list[ApiCall]:
        """Recorded calls that match."""
        return [call for call in self.requests if matches(matcher, call)]

    async def wait_for_calls(self, matcher: Matcher, count: int = 1) -> list[ApiCall]:
        """Wait until that many matching calls have come."""
        await self._wait(lambda: len(self.calls(matcher)) >= count)
        return self.calls(matcher)

    async def wait_for_watches(self, matcher: Matcher = "watch *", count: int = 1) -> None:
        """Wait until that many matching watches are open."""
        await self._wait(lambda: self.watch_count(matcher) >= count)

    def watch_count(self, matcher: Matcher = "watch *") -> int:
        """Open watches that match."""
        return sum(matches(matcher, watch.call) for watch in self._watches)

    # Faults.

    def handle(self, matcher: str, hook: Hook) -> None:
        """
        Have calls answered by a hook: `<verb> <plural>[/<subresource>]` or `<METHOD> <path>`.

        A hook that was set for the same words before is replaced.
        """
        self._hooks[matcher] = hook

    def fail_next(
        self,
        matcher: Matcher,
        status: int = 500,
        *,
        reason: str = "",
        message: str = "made to fail",
        retry_after_seconds: int | None = None,
        times: int = 1,
        as_event: bool = False,
    ) -> None:
        """
        Answer the next matching calls with a Status.

        `as_event`: a watch is let in and then gets it as an ERROR event.
        """
        failure = ApiFailureError(status, reason, message, retry_after_seconds=retry_after_seconds)
        self._faults.append(Fault(matcher, times, failure=failure, as_event=as_event))

    def delay_next(self, matcher: Matcher, seconds: float, *, times: int = 1) -> None:
        """Answer the next matching calls late (by the loop's clock)."""
        self._faults.append(Fault(matcher, times, delay_seconds=seconds))

    def drop_next(self, matcher: Matcher, *, times: int = 1) -> None:
        """
        Close the connection of the next matching calls without an answer; nothing is done.

        aiohttp repeats an idempotent call whose reused connection closes: such a one takes two.
        """
        self._faults.append(Fault(matcher, times, drop=True))

    def cut_body_next(self, matcher: Matcher, *, times: int = 1) -> None:
        """Break the connection amid the answer's body; what was asked is done. Not for watches."""
        self._faults.append(Fault(matcher, times, cut_body=True))

    def delay_answer_next(self, matcher: Matcher, seconds: float, *, times: int = 1) -> None:
        """Do at once what the next matching calls ask, but answer late. Not for watches."""
        self._faults.append(Fault(matcher, times, answer_delay_seconds=seconds))

    def end_next(self, matcher: Matcher = "watch *", *, times: int = 1) -> None:
        """End the next matching watches at once, without an event."""
        self._faults.append(Fault(matcher, times, end_at_once=True))

    def heal(self) -> None:
        """Forget the faults that haven't met a call yet."""
        self._faults.clear()

    def cut_watches(self, ending: Ending = Ending.CUT, matcher: Matcher = "watch *") -> None:
        """End all open watches that match."""
        for watch in self._watches:
            if matches(matcher, watch.call):
                watch.end(ending)

    def mute_watches(self, matcher: Matcher = "watch *") -> None:
        """Have all open watches that match stay open and say nothing any more."""
        for watch in self._watches:
            if matches(matcher, watch.call):
                watch.mute()

    def expire_history(self) -> None:
        """
        Forget what was before now: watches from older versions and continue tokens get 410.

        As HTTP 410; for one in the stream use `fail_next(…, 410, as_event=True)`. Open watches
        go on.
        """
        self._state.expire_history()
        self._answers.forget_pages()

    def rebuild(self) -> None:
        """Cut all watches and be a new cluster under the old address: empty, its versions low."""
        self.cut_watches()
        self._state.rebuild()
        self._answers.forget_pages()

    def send_bookmarks(self, matcher: Matcher = "watch *") -> None:
        """Send a bookmark to all open watches that match."""
        for watch in self._watches:
            if matches(matcher, watch.call):
                watch.put_bookmark()

    def send_event(
        self, event_type: str, body: KubeObject, *, matcher: Matcher = "watch *"
    ) -> None:
        """Send any event to all open watches that match; the state stays as it is."""
        self.send_line(encode_event(event_type, body), matcher=matcher)

    def send_line(self, line: bytes, *, matcher: Matcher = "watch *") -> None:
        """Send any bytes to all open watches that match."""
        for watch in self._watches:
            if matches(matcher, watch.call):
                watch.outbox.append(line)
                watch.wake()

    # Serving.

    def _wake_watches(self) -> None:
        for watch in self._watches:
            watch.wake()
        self._progress.set()

    async def _wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._progress.clear()
            await self._progress.wait()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        call = await read_call(request)
        self.requests.append(call)
        self._progress.set()
        try:
            fault = await self._meet_faults(call)
            if call.verb == "watch":
                return await self._watch(call, fault)
            response = await self._answer(call)
            if fault is not None:
                await asyncio.sleep(fault.answer_delay_seconds)
        except ApiFailureError as failure:
            return _status_response(failure)
        if fault is not None and fault.cut_body and isinstance(response, web.Response):
            await _send_half(request, response)
        return response

    async def _meet_faults(self, call: ApiCall) -> Fault | None:
        """Let delays pass, fail or drop; what concerns the answer's body is left to the caller."""
        if self.tokens is not None:
            token = call.headers.get("Authorization", "").removeprefix("Bearer ")
            if token not in self.tokens:
                raise ApiFailureError(401, "Unauthorized", "Unauthorized")
        for fault in list(self._faults):
            if not matches(fault.matcher, call):
                continue
            fault.times -= 1
            if fault.times <= 0:
                self._faults.remove(fault)
            if fault.delay_seconds:
                await asyncio.sleep(fault.delay_seconds)
                continue
            if fault.drop:
                await _break_connection(call.request)
            if fault.failure is not None and not fault.as_event:
                raise fault.failure
            return fault
        return None

    async def _answer(self, call: ApiCall) -> web.StreamResponse:
        for matcher, hook in self._hooks.items():
            if matches(matcher, call):
                answer = hook(call)
                if inspect.isawaitable(answer):
                    answer = await answer
                if isinstance(answer, web.StreamResponse):
                    return answer
                return json_response(answer, 201 if call.method == "POST" else 200)
        return self._answers.answer(call)

    async def _watch(self, call: ApiCall, fault: Fault | None) -> web.StreamResponse:
        watch = Watch(call, self._state, self.watch_list)
        watch.check()
        failure = watch.version_error()
        if failure is not None:
            raise failure
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(call.request)
        if fault is not None and fault.end_at_once:
            return response
        if fault is not None and fault.failure is not None:
            await response.write(encode_event("ERROR", fault.failure.status()))
            return response
        self._watches.append(watch)
        self._progress.set()
        try:
            await watch.serve(response)
        finally:
            self._watches.remove(watch)
        return response


def _status_response(failure: ApiFailureError) -> web.Response:
    response = json_response(failure.status(), failure.code)
    if failure.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(failure.retry_after_seconds)
    return response


async def _send_half(request: web.Request, whole: web.Response) -> None:
    assert isinstance(whole.body, bytes)
    response = web.StreamResponse(status=whole.status, headers={"Content-Type": "application/json"})
    response.content_length = len(whole.body)
    await response.prepare(request)
    await response.write(whole.body[: len(whole.body) // 2])
    await _break_connection(request)


async def _break_connection(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
    await asyncio.Event().wait()  # until aiohttp cancels the handler of the lost connection
