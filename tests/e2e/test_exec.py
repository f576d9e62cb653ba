"""Commands: each made to the remote pod directly, and through the virtual node, on either leg."""

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.commands import COLUMNS, ROWS, Key, Outcome, run_slowly
from tests.e2e.differential import Both
from tests.e2e.right import undouble_prefix

pytestmark = pytest.mark.e2e

_LONG = 100_000
_UNREAD_BYTES = 100_000

EXECS: Sequence[Sequence[str]] = (
    *(("talker", "--", "sh", "-c", f"exit {code}") for code in (0, 1, 2, 126, 127, 128, 137, 255)),
    ("talker", "--", "sh", "-c", "kill -9 $$"),
    ("talker", "--", "sh", "-c", "kill -TERM $$"),
    ("talker", "--", "sh", "-c", "echo out; echo err >&2"),
    ("talker", "--", "sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 5"),
    ("talker", "--", "tar", "cf", "-", "/none"),
    ("talker", "--", "printf", r"\001\377\000x"),
    ("talker", "--", "printf", "%s|", "two words", "", "ü", "&=+%", "line\nbreak", "-n", "--"),
    ("talker", "--", "sh", "-c", 'printf %s "$0" | wc -c', "x" * _LONG),
    ("talker", "--", "true"),
    ("talker", "--", "env"),
    ("talker", "-q", "--", "id"),
    ("talker", "--"),
    ("-i", "talker", "--", "cat"),
    ("-t", "talker", "--", "sh", "-c", "[ -t 1 ] && echo terminal"),
    ("-it", "talker", "--", "sh", "-c", "echo out; echo err >&2; exit 3"),
    ("talker", "--container=none", "--", "true"),
    ("none", "--", "true"),
    ("ended", "--", "true"),
    ("failed-init", "--", "true"),
    ("failed-init", "--container=prepare", "--", "true"),
    ("initializing", "--", "true"),
    ("initializing", "--container=prepare", "--", "echo", "in init"),
    ("inits", "--container=prepare", "--", "true"),
    ("inits", "--container=sidecar", "--", "echo", "in sidecar"),
    ("no-image", "--", "true"),
    ("pair", "--", "echo", "first"),
    ("pair", "--container=second", "--", "echo", "second"),
)

NOT_STARTED: Sequence[str] = ("no-such", "/etc/passwd", "/etc", "")
"""What isn't a program."""


def _name(args: Sequence[str]) -> str:
    return " ".join(ascii(arg if len(arg) < 50 else f"{arg[:9]}…") for arg in args)


@pytest.mark.parametrize("args", EXECS, ids=_name)
async def test_exec(leg: Both, args: Sequence[str], client: Mapping[str, str]) -> None:
    direct, through = await leg.run("exec", *args, env=client)
    assert through == direct


@pytest.mark.parametrize("program", NOT_STARTED, ids=ascii)
@pytest.mark.parametrize("options", [(), ("-it",)], ids=["", "tty"])
async def test_exec_of_no_program(
    leg: Both, program: str, options: Sequence[str], client: Mapping[str, str]
) -> None:
    """RIGHT["doubled prefix"]; where an API server translates, it doubles ours as well."""
    direct, through = await leg.run("exec", *options, "talker", "--", program, env=client)
    assert through == (undouble_prefix(direct) if leg.passes_websockets else direct)
    assert through.returncode == direct.returncode != 0


TERMINALS: Mapping[str, tuple[str, Sequence[Key]]] = {
    "size": ("until stty size 2>/dev/null | grep -v ^0; do sleep 0.1; done; exit 7", ()),
    "resize": (
        "echo ready; until stty size 2>/dev/null | grep '50 132'; do sleep 0.1; done; exit 6",
        (Key(after=b"ready", size=(50, 132)),),
    ),
    "lines": (
        "echo first?; read a; echo second?; read b; echo $a, $b; exit 3",
        (Key(after=b"first?", typed=b"one\n"), Key(after=b"second?", typed=b"two\n")),
    ),
    "interrupt": (
        "trap 'echo stopped; exit 5' INT; echo waiting; while :; do sleep 0.1; done",
        (Key(after=b"waiting", typed=b"\x03"),),
    ),
    "end of file": (
        "echo copying; cat; echo ended; exit 4",
        (Key(after=b"copying", typed=b"a line\n"), Key(after=b"\na line", typed=b"\x04")),
    ),
    "three": ("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; echo err >&2", ()),
}
"""Scripts by name, and what is typed."""


@pytest.mark.parametrize("name", TERMINALS)
async def test_terminal(leg: Both, name: str, client: Mapping[str, str]) -> None:
    script, keys = TERMINALS[name]
    direct, through = await leg.run(
        "exec", "-it", "talker", "--", "sh", "-c", script, terminal=keys, env=client
    )
    assert through == direct
    if name == "size":
        assert through.stdout.startswith(f"{ROWS} {COLUMNS}\r\n".encode())
    if name == "resize":
        assert b"\n50 132\r\n" in through.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A file that can't be guessed."""

    path: Path
    size: int
    sha256: str


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> Payload:
    """A file of 100 MB; VKUBELET_E2E_MEGABYTES for another size."""
    path = tmp_path_factory.mktemp("payload") / "random"
    digest = hashlib.sha256()
    size = int(os.environ.get("VKUBELET_E2E_MEGABYTES", "100"))
    with path.open("wb") as file:
        for _ in range(size):
            chunk = os.urandom(1_000_000)
            digest.update(chunk)
            file.write(chunk)
    return Payload(path=path, size=size * 1_000_000, sha256=digest.hexdigest())


async def test_big_stdin_arrives_whole(
    leg: Both, payload: Payload, client: Mapping[str, str]
) -> None:
    args = ("exec", "-i", "talker", "--", "sha256sum")
    through = await leg.through.run(*args, stdin=payload.path, env=client)
    assert through == Outcome(returncode=0, stdout=f"{payload.sha256}  -\n".encode())


async def test_big_stdin_comes_back_whole(
    leg: Both, payload: Payload, client: Mapping[str, str]
) -> None:
    through = await leg.through.run(
        "exec", "-i", "talker", "--", "cat", stdin=payload.path, env=client
    )
    assert (through.returncode, len(through.stdout), through.stderr) == (0, payload.size, "")
    assert hashlib.sha256(through.stdout).hexdigest() == payload.sha256


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("head -c 1000 | wc -c; exit 6", (6, b"1000\n")),
        ("exec <&-; sleep 0.5; echo done", (0, b"done\n")),
        ("exit 9", (9, b"")),
    ],
    ids=["some", "closed", "none"],
)
async def test_stdin_that_is_not_read(
    leg: Both, tmp_path: Path, script: str, end: tuple[int, bytes], client: Mapping[str, str]
) -> None:
    """As much as pipes hold: with more, containerd waits for ever for its copy of stdin to end."""
    stdin = tmp_path / "stdin"
    stdin.write_bytes(bytes(_UNREAD_BYTES))
    direct, through = await leg.run(
        "exec", "-i", "talker", "--", "sh", "-c", script, stdin=stdin, env=client
    )
    assert (direct.returncode, direct.stdout) == end
    assert (through.returncode, through.stdout) == end


async def test_output_arrives_whole_again_and_again(leg: Both, client: Mapping[str, str]) -> None:
    args = ("exec", "talker", "--", "sh", "-c", "head -c 5000000 /dev/zero | tee /dev/stderr")
    for _ in range(3):
        through = await leg.through.run(*args, env=client)
        assert (through.returncode, len(through.stdout)) == (0, 5_000_000)
        assert len(through.stderr) == 5_000_000


async def test_many_commands_at_once(leg: Both, client: Mapping[str, str]) -> None:
    async with asyncio.TaskGroup() as group:
        commands = [
            group.create_task(
                leg.through.run(
                    *("exec", "talker", "--", "sh", "-c"),
                    f"head -c {number}00000 /dev/zero; exit {number}",
                    env=client,
                )
            )
            for number in range(10)
        ]
    outcomes = [command.result() for command in commands]
    assert [outcome.returncode for outcome in outcomes] == list(range(10))
    assert [len(outcome.stdout) for outcome in outcomes] == [n * 100_000 for n in range(10)]


async def test_slow_reader(leg: Both, client: Mapping[str, str]) -> None:
    """RIGHT["lost tail"]."""
    args = ("exec", "talker", "--", "head", "-c", "8000000", "/dev/zero")
    slow = await run_slowly(
        leg.through.build_command(*args),
        leg.through.build_environment(client),
        bytes_per_second=2e6,
    )
    assert (slow.returncode, len(slow.stdout), slow.stderr) == (0, 8_000_000, "")
