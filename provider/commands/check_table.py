"""What checks find as text for people: fits 80 columns but for command lines to be copied."""

from collections import Counter
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from provider.checkup.finding import CheckResult, Level
from provider.checkup.names import NAMES
from provider.commands.words import count

_STYLES = {
    Level.OK: "green",
    Level.SKIPPED: "default",
    Level.WARNING: "yellow",
    Level.FAILURE: "red",
}
_LEVEL_WIDTH = max(len(level) for level in Level)
_NAME_WIDTH = max(map(len, NAMES))


def print_result(result: CheckResult, console: Console) -> None:
    """Print what a check found."""
    for finding in result.findings:
        line = Table.grid(padding=(0, 2))
        line.add_column(width=_LEVEL_WIDTH, no_wrap=True)
        line.add_column(width=_NAME_WIDTH, no_wrap=True)
        line.add_column(overflow="fold")
        text = Text(finding.message)
        if finding.advice:
            text.append(f"\n→ {finding.advice}")
        line.add_row(Text(finding.level.value, style=_STYLES[finding.level]), result.name, text)
        console.print(line)
        if finding.command:  # not wrapped, so that it can be copied
            console.print(Text(f"  $ {finding.command}"), soft_wrap=True)


def print_summary(results: Iterable[CheckResult], console: Console) -> None:
    """Print how many there are of each kind."""
    levels = Counter(finding.level for result in results for finding in result.findings)
    parts = [
        count(levels[level], what)
        for level, what in ((Level.FAILURE, "failure"), (Level.WARNING, "warning"))
        if levels[level]
    ]
    console.print()
    console.print(Text(", ".join(parts) or "all is well"))
