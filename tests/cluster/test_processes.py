import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.processes import Component, ReservedPort, Workspace
from tests.cluster.waiting import wait_until

SHELL = shutil.which("sh") or "sh"


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    workspace = Workspace("processes")
    yield workspace
    workspace.close()
    assert not workspace.folder.exists()


def _build(workspace: Workspace, script: str) -> Component:
    return Component("program", [SHELL, "-c", script], workspace)


def _read_state(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]


async def _wait_logged(component: Component, text: str) -> None:
    async def logged() -> bool:
        return text in component.read_log()

    await wait_until(logged, f"{text!r} in the log", timeout_seconds=10)


async def test_program_that_ends_by_itself(workspace: Workspace) -> None:
    component = _build(workspace, "echo out; echo err >&2; exit 3")
    component.start()
    assert await component.wait() == 3
    assert component.exit_code == 3
    assert component.pid is None
    assert component.read_log() == "out\nerr"
    await component.stop()  # harmless


async def test_program_that_is_missing(workspace: Workspace) -> None:
    component = Component("program", ["/nowhere/program"], workspace)
    component.start()
    assert await component.wait() == 1
    assert component.read_log() == "/nowhere/program: No such file or directory"


async def test_stop_lets_it_end_by_itself(workspace: Workspace) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    component = _build(workspace, script)
    component.start()
    await _wait_logged(component, "up")
    await component.stop()
    assert component.exit_code == 0
    assert component.read_log().endswith("bye")


async def test_stop_kills_it_after_the_grace(workspace: Workspace) -> None:
    component = _build(workspace, "trap '' TERM; echo up; while :; do sleep 0.05; done")
    component.start()
    await _wait_logged(component, "up")
    await component.stop(grace_seconds=0.2)
    assert component.exit_code == -signal.SIGKILL


async def test_what_it_left_in_its_group_is_killed(workspace: Workspace) -> None:
    component = _build(workspace, "sleep 60 & echo $!")
    component.start()
    await component.wait()
    child = int(component.read_log())

    async def gone() -> bool:
        return _read_state(child) in {"", "Z"}

    await wait_until(gone, "the child is gone", timeout_seconds=10)


async def test_starting_again_appends_to_the_log(workspace: Workspace) -> None:
    component = _build(workspace, "echo $$")
    for _ in range(2):
        component.start()
        await component.wait()
    first, second = component.read_log().splitlines()
    assert first != second
    assert component.read_log(offset=len(first) + 1) == second
    assert component.read_log(lines=1) == second


def test_janitor_kills_what_is_left_and_removes_the_folder() -> None:
    workspace = Workspace("janitor")
    component = _build(workspace, "sleep 60")
    component.start()
    pid = component.pid
    assert pid is not None
    workspace.close()
    assert not workspace.folder.exists()
    assert component.exit_code == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


def test_reserved_port_refuses_and_can_be_shared_by_those_who_say_so() -> None:
    port = ReservedPort()
    address = ("127.0.0.1", port.number)
    try:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
        with socket.create_server(address, reuse_port=True):
            socket.create_connection(address, timeout=5).close()
    finally:
        port.close()
