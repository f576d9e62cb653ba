"""Logs: each request made to the remote API server, and to home's through the virtual node."""

import asyncio
import dataclasses
from collections.abc import Sequence

import pytest

from tests.e2e.commands import Outcome
from tests.e2e.differential import Both, Side
from tests.e2e.pods import FLOOD_LINES, shell

pytestmark = pytest.mark.e2e

_LOG = "/api/v1/namespaces/{ns}/pods/talker/log"

LOGS: Sequence[str] = (
    "talker",
    "talker --timestamps",
    *(f"talker --tail={lines}" for lines in (-2, -1, 0, 1, 5, 41, 100_000)),
    *(f"talker --limit-bytes={size}" for size in (0, 1, 10, 100, 30_000, 1_000_000)),
    "talker --limit-bytes=100 --timestamps",
    "talker --tail=3 --limit-bytes=10",
    "talker --tail=3 --timestamps --since=1h",
    *(f"talker --since={time}" for time in ("0s", "1ns", "1h", "-1s", "soon")),
    "talker --since-time=2020-01-01T00:00:00Z",
    "talker --since-time=2099-01-01T00:00:00Z",
    "talker --since-time=2020-01-01T02:00:00.123456789+02:00",
    "talker --since-time=yesterday",
    "talker --since=1h --since-time=2020-01-01T00:00:00Z",
    "talker --container=none",
    "talker --container=main",
    "talker --previous",
    "talker --insecure-skip-tls-verify-backend",
    "flood",
    "flood --tail=1000",
    "flood --limit-bytes=123456 --timestamps",
    "none",
    "ended",
    "ended --follow",
    "ended --follow --timestamps",
    "ended --follow --tail=0",
    "ended --previous",
    "silent",
    "silent --follow",
    "again",
    "again --previous",
    "again --previous --follow",
    "again --previous --tail=1 --timestamps",
    "again --previous --container=none",
    "inits",
    "inits --container=prepare",
    "inits --container=prepare --previous",
    "inits --container=sidecar",
    "inits --all-containers",
    "inits --all-containers --prefix --timestamps",
    "failed-init",
    "failed-init --container=prepare",
    "failed-init --container=main",
    "failed-init --container=main --previous",
    "initializing",
    "initializing --container=prepare",
    "initializing --follow --pod-running-timeout=1s",
    "no-image",
    "no-image --previous",
    "no-image --follow --pod-running-timeout=1s",
    "pair",
    "pair --container=second",
    "pair --container=third",
    "pair --all-containers --prefix",
    "--selector=app=pair --all-containers --tail=1",
)

LOG_QUERIES: Sequence[str] = (
    "",
    "timestamps=1",
    "follow=0",
    "follow=maybe&limitBytes=5",
    "insecureSkipTLSVerifyBackend=true",
    "unknown=1",
    "previous=true",
    "container=none",
    "container=",
    *(
        f"tailLines={value}"
        for value in ("abc", "-5", "3", "99999999999999999999", "1&tailLines=2")
    ),
    *(f"limitBytes={value}" for value in ("0", "-1", "x", "7")),
    *(f"sinceSeconds={value}" for value in ("0", "-1", "x", "3600")),
    *(f"sinceTime={value}" for value in ("x", "2020-01-01T00:00:00.123456789Z")),
    "sinceSeconds=5&sinceTime=2020-01-01T00:00:00Z",
    *(f"stream={value}" for value in ("", "All", "Stdout", "Stderr", "Bad", "Stdout&tailLines=3")),
)


@pytest.mark.parametrize("args", LOGS)
async def test_logs(both: Both, args: str) -> None:
    direct, through = await both.run("logs", *args.split())
    if "--all-containers" in args:  # kubectl reads them side by side
        direct, through = _sort(direct), _sort(through)
    assert through == direct


def _sort(outcome: Outcome) -> Outcome:
    lines = sorted(outcome.stdout.splitlines(keepends=True))
    return dataclasses.replace(outcome, stdout=b"".join(lines))


@pytest.mark.parametrize("query", LOG_QUERIES)
async def test_log_queries(both: Both, query: str) -> None:
    direct, through = await both.run("get", "--raw", f"{_LOG}?{query}")
    assert through == direct


async def test_long_log_is_whole(both: Both) -> None:
    through = await both.through.run("logs", "flood")
    assert through.stdout == "".join(f"{line}\n" for line in range(1, FLOOD_LINES + 1)).encode()


async def _follow(side: Side, pod: str, started: asyncio.Event, *args: str) -> Outcome:
    """Follow a log from its first line, `waiting`, to its end."""
    async with side.open("logs", "--follow", pod, *args) as process, asyncio.timeout(60):
        assert process.stdout is not None
        first = await process.stdout.readline()
        assert b"waiting" in first
        started.set()
        out, err = await process.communicate()
    assert process.returncode is not None
    return Outcome(returncode=process.returncode, stdout=first + out, stderr=err.decode())


async def _follow_both(
    both: Both, pod: str, script: str, end: Sequence[str]
) -> tuple[Outcome, Outcome]:
    """Follow a pod's log on both sides at once; when both do, run kubectl at home."""
    container = shell("main", f"echo waiting; {script}")
    await both.add({pod: {"containers": [container], "restartPolicy": "Never"}})
    events = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        followers = [
            group.create_task(_follow(side, pod, event, "--timestamps"))
            for side, event in zip((both.direct, both.through), events, strict=True)
        ]
        for event in events:
            await event.wait()
        ended = await both.through.run(*end)
        assert ended.returncode == 0, ended
    direct, through = (both.translate(follower.result()) for follower in followers)
    return direct, through


async def test_follow_to_the_end(both: Both) -> None:
    script = """
    until [ -e /tmp/go ]; do sleep 0.1; done
    for i in $(seq 1 20); do echo "out $i"; echo "err $i" >&2; sleep 0.05; done; printf end; exit 4
    """
    end = ("exec", "counting", "--", "touch", "/tmp/go")
    direct, through = await _follow_both(both, "counting", script, end)
    assert through == direct
    assert through.returncode == 0
    assert through.stdout.endswith(b" end")


async def test_follow_a_pod_that_is_deleted(both: Both) -> None:
    script = "trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done"
    end = ("delete", "pod", "leaving", "--wait=false", "--grace-period=10")
    direct, through = await _follow_both(both, "leaving", script, end)
    assert through == direct
    assert through.returncode == 0
    assert through.stdout.endswith(b" bye\n")
