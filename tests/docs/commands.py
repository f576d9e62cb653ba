"""The shell commands of the documents: what a reader would type."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SHELL = "sh"
LANGUAGES = frozenset({SHELL, "python", "text", "toml", "yaml"})
"""What fenced blocks hold; each has to say so."""

_FENCE = re.compile(r"^ *```(\w*)$")
_HEREDOC = re.compile(r"<<-?'?(\w+)'?")


@dataclass(frozen=True, slots=True)
class Block:
    """
    A fenced block.

    Attributes:
        page: Its document, relative to the repository.
        line: Where it begins.
        language: What the fence says.
        lines: What it holds.
    """

    page: str
    line: int
    language: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """
    A command of a block.

    Attributes:
        page: Its document, relative to the repository.
        line: Where it begins.
        text: As a shell gets it, all its lines.
    """

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text.splitlines()[0]}"


def find_pages() -> list[Path]:
    """Find all documents for users."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def read_blocks(page: Path) -> Iterator[Block]:
    """
    Yield the fenced blocks of a document.

    Raises:
        ValueError: If the last one doesn't end.
    """
    name = str(page.relative_to(REPOSITORY))
    begin, language, held = 0, "", list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence is None:
            held.append(line)
        elif begin:
            yield Block(name, begin, language, tuple(held))
            begin = 0
        else:
            begin, language, held = number, fence[1], []
    if begin:
        raise ValueError(f"{name}: the block of line {begin} doesn't end")


def read_commands(page: Path) -> Iterator[Command]:
    """Yield the commands of a document, in order."""
    for block in read_blocks(page):
        if block.language == SHELL:
            yield from split_commands(block)


def split_commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a block: lines that end with a backslash or a pipe go on."""
    held: list[str] = []
    heredoc = ""
    for number, line in enumerate(block.lines, start=block.line + 1):
        if not held and (not line.strip() or line.lstrip().startswith("#")):
            continue
        held.append(line)
        if heredoc:
            heredoc = "" if line.strip() == heredoc else heredoc
        else:
            found = _HEREDOC.search(line)
            heredoc = found[1] if found else ""
        if not heredoc and not line.rstrip().endswith(("\\", "|")):
            yield Command(block.page, number - len(held) + 1, "\n".join(held))
            held = []
