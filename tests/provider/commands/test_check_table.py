"""Findings for people: fit 80 columns but for commands."""

from io import StringIO

from rich.console import Console

from provider.checkup.finding import CheckResult, failure, ok, warning
from provider.commands.check_table import print_result, print_summary


def show(*results: CheckResult) -> list[str]:
    file = StringIO()
    console = Console(file=file, width=80)
    for result in results:
        print_result(result, console)
    print_summary(results, console)
    return file.getvalue().splitlines()


def test_lines() -> None:
    command = "kubectl patch " + "x" * 100
    lines = show(
        CheckResult("versions", (ok("home v1.37.2"),)),
        CheckResult("daemonsets", (warning("w " * 60, "keep it off", command), failure("no"))),
    )
    assert lines[0].split() == ["ok", "versions", "home", "v1.37.2"]
    assert f"  $ {command}" in lines
    assert any(line.strip() == "→ keep it off" for line in lines)
    assert all(len(line) <= 80 for line in lines if not line.startswith("  $ "))
    assert lines[-1] == "1 failure, 1 warning"


def test_nothing_wrong() -> None:
    assert show(CheckResult("versions", (ok("fine"),)))[-1] == "all is well"
