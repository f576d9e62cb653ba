"""Attaching to containers: on the remote cluster directly, and through the virtual node."""

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence

import pytest

from tests.e2e.commands import Key, Outcome
from tests.e2e.differential import Both, Side
from tests.e2e.pods import shell
from tests.e2e.real_node import BUSYBOX_IMAGE

pytestmark = pytest.mark.e2e

_ECHO = """
while :; do echo tick; sleep 1; done &
read a; kill $!
while :; do echo "got $a"; [ "$a" = last ] && exit 3; read a; done
"""
_ASK = 'while :; do echo "ask?"; sleep 1; done & read a; kill $!; echo "got $a"; exit 3'


async def _talk(side: Side, env: Mapping[str, str]) -> bytes:
    """Attach to a container that answers, write a line, and return what it says to it."""
    async with side.open("attach", "-i", "reader", env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        async with asyncio.timeout(30):
            process.stdin.write(b"hello\n")
            return await process.stdout.readline()


async def test_input_and_output(leg: Both, client: Mapping[str, str]) -> None:
    """Those who leave only detach."""
    for side in (leg.direct, leg.through, leg.through):
        assert await _talk(side, client) == b"got hello\n"


async def _listen(side: Side, pod: str, started: asyncio.Event, env: Mapping[str, str]) -> Outcome:
    """Attach for output only, from a line to the end."""
    async with side.open("attach", pod, "--quiet", env=env) as process, asyncio.timeout(30):
        assert process.stdout is not None
        while b"tick" not in await process.stdout.readline():
            pass
        started.set()
        out, err = await process.communicate()
    assert process.returncode is not None
    return Outcome(returncode=process.returncode, stdout=out, stderr=err.decode())


async def test_output_to_the_end(leg: Both, client: Mapping[str, str]) -> None:
    """Both see the end of what a container writes, and that it ended."""
    script = """
    until [ -e /tmp/go ]; do echo tick; sleep 0.1; done
    for i in $(seq 1 20); do echo "out $i"; echo "err $i" >&2; done; exit 4
    """
    pod = f"ticking-{secrets.token_hex(3)}"
    await leg.add({pod: {"containers": [shell("main", script)], "restartPolicy": "Never"}})
    events = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        listeners = [
            group.create_task(_listen(side, pod, event, client))
            for side, event in zip((leg.direct, leg.through), events, strict=True)
        ]
        for event in events:
            await event.wait()
        await leg.through.run("exec", pod, "--", "touch", "/tmp/go")
    direct, through = (leg.translate(listener.result()) for listener in listeners)
    assert through.stdout.replace(b"tick\n", b"") == direct.stdout.replace(b"tick\n", b"")
    assert (through.returncode, through.stderr) == (direct.returncode, direct.stderr)
    assert through.stdout.endswith(b"out 20\n")


async def test_terminal(leg: Both, client: Mapping[str, str]) -> None:
    """A terminal, each side its own, until the container ends."""
    keys = [
        Key(after=b"tick", typed=b"first\n"),
        Key(after=b"got first", typed=b"last\n"),
    ]
    container = shell("main", _ECHO, stdin=True, tty=True)
    spec = {"containers": [container], "restartPolicy": "Never"}
    pod = f"terminal-{secrets.token_hex(3)}"
    await leg.add({f"{pod}-1": spec, f"{pod}-2": spec})
    args = ("attach", "-it", "--quiet=false")
    async with asyncio.TaskGroup() as group:
        talks = [
            group.create_task(side.run(*args, f"{pod}-{number}", terminal=keys, env=client))
            for number, side in enumerate((leg.direct, leg.through), 1)
        ]
    direct, through = (leg.translate(talk.result()) for talk in talks)
    assert through.returncode == direct.returncode
    shown = through.stdout.replace(b"-2 ", b"-1 ").replace(b"tick\r\n", b"")
    assert shown == direct.stdout.replace(b"tick\r\n", b"")
    assert b"got last\r\n" in through.stdout


@pytest.mark.parametrize(
    "args",
    ["none", "ended", "initializing", "no-image", "pair --container=third"],
)
async def test_what_fails(leg: Both, args: str, client: Mapping[str, str]) -> None:
    direct, through = await leg.run("attach", *args.split(), "--pod-running-timeout=1s", env=client)
    assert through == direct


async def test_run(leg: Both, client: Mapping[str, str]) -> None:
    """`kubectl run -it --rm` gives the container's exit code."""
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": leg.through.node},
        "tolerations": [{"operator": "Exists"}],
    }
    run: Sequence[str] = (
        *("run", "runner", "-it", "--rm", "--restart=Never", f"--image={BUSYBOX_IMAGE}"),
        *("--image-pull-policy=Never", "--command"),
    )
    command = ("--", "sh", "-c", _ASK)
    keys = [Key(after=b"ask?", typed=b"yes\n")]
    direct = await leg.direct.run(*run, *command, terminal=keys, env=client)
    overrides = f"--overrides={json.dumps({'spec': spec})}"
    through = await leg.through.run(*run, overrides, *command, terminal=keys, env=client)
    for outcome in (direct, through):
        assert outcome.returncode == 3
        assert b"got yes\r\n" in outcome.stdout
