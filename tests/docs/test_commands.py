"""Each command of the documents is tested somehow, and what can be read without a cluster is."""

import shlex
import subprocess
from pathlib import Path
from textwrap import indent

import pytest

from provider.cli import main
from tests.docs.commands import (
    LANGUAGES,
    REPOSITORY,
    Block,
    Command,
    find_pages,
    read_blocks,
    read_commands,
    split_commands,
)
from tests.docs.handling import NOT_RUN, PARSED, REPEATED, WALK, is_run

COMMANDS = [command for page in find_pages() for command in read_commands(page)]
OTHERS_PLUGIN = "--node-mapping zone-instance"
OURS = [
    command
    for command in COMMANDS
    if command.text.startswith("vkubelet ") and OTHERS_PLUGIN not in command.text
]
ELLIPSIS = "…"
NEEDED = {
    "--remote-cluster": "cloud",
    "--remote-kubeconfig": "remote.kubeconfig",
    "--kubelet-address": "192.0.2.10",
    "--namespace": "demo",
}
"""What an ellipsis stands for."""


def _find(block: str) -> list[str]:
    lines = tuple(block.splitlines())
    return [command.text for command in split_commands(Block("page", 1, "sh", lines))]


def test_blocks_are_split_into_commands() -> None:
    assert _find("# first\na b   # why\n\nc \\\n  d |\n  e\nf <<EOF\nx \\\n# y\nEOF\ng") == [
        "a b   # why",
        "c \\\n  d |\n  e",
        "f <<EOF\nx \\\n# y\nEOF",
        "g",
    ]


@pytest.mark.parametrize("page", find_pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_block_says_what_it_holds(page: Path) -> None:
    assert {block.language for block in read_blocks(page)} <= LANGUAGES


def test_every_command_is_tested_somehow() -> None:
    handled = {*WALK, *REPEATED}
    left = [str(command) for command in COMMANDS if command.page not in handled and is_run(command)]
    assert left == []
    assert {command.page for command in COMMANDS} >= handled


def test_repeated_commands_are_the_others() -> None:
    for page, other in REPEATED.items():
        here = [command.text for command in COMMANDS if command.page == page and is_run(command)]
        there = {command.text for command in COMMANDS if command.page == other}
        assert here
        assert set(here) <= there


def test_what_is_not_run_is_there() -> None:
    for beginning in (PARSED, *NOT_RUN):
        assert any(command.text.startswith(beginning) for command in COMMANDS), beginning


def _read_words(command: Command) -> list[str]:
    words = shlex.split(command.text.replace("\\\n", " "), comments=True)
    if ELLIPSIS in words:
        words.remove(ELLIPSIS)
        for flag, value in NEEDED.items():
            if flag not in words:
                words += [flag, value]
    return words


@pytest.mark.parametrize("command", OURS, ids=str)
def test_our_commands_are_understood(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where there is neither cluster nor kubeconfig they end, but not by exit code 2: usage."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "remote.kubeconfig").touch()
    words = _read_words(command)
    code = main(words[1:])
    assert code in (0, 1), capsys.readouterr().err


def test_targets_of_make_exist() -> None:
    targets = [
        shlex.split(c.text, comments=True)[1] for c in COMMANDS if c.text.startswith("make ")
    ]
    assert targets
    for target in targets:
        command = ["make", "--dry-run", "--question", "--directory", str(REPOSITORY), target]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "No rule to make target" not in done.stderr


def test_the_code_of_a_kubelet_is_the_examples() -> None:
    page = REPOSITORY / "docs" / "extending.md"
    example = REPOSITORY / "docs" / "examples" / "memory-nodes" / "memory_nodes" / "__main__.py"
    (block,) = [block for block in read_blocks(page) if block.language == "python"]
    assert indent("\n".join(block.lines), " " * 4) in example.read_text(encoding="utf-8")
