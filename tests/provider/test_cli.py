"""Exit codes and what the command line prints."""

import subprocess
import sys

import pytest

from provider.cli import COMMANDS, main
from vkubelet import __version__


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"vkubelet {__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert [
        name for name, command in COMMANDS.items() if f"{name} {command.help}" not in text
    ] == []


PLAN = ["plan", "--remote-cluster", "cloud", "--remote-kubeconfig", "none"]
TEARDOWN = ["teardown", "--remote-cluster", "cloud", "--home-only"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["run", "--remote-clust", "x"], "unrecognized arguments: --remote-clust"),
        (["run", "--remote-cluster", "Bad_Name"], "--remote-cluster: 'Bad_Name'"),
        (["run", "--remote-cluster"], "--remote-cluster: expected one argument"),
        (["run", "--config", "/does/not/exist"], "--config /does/not/exist: No such file"),
        (["plan"], "--remote-cluster, --remote-kubeconfig must be given"),
        ([*PLAN, "-o", "xml"], "invalid choice: 'xml'"),
        (["status", "-o", "xml"], "invalid choice: 'xml'"),
        (["check", "--only", "luck"], "--only: invalid choice: 'luck'"),
        (["check", "--only", "pod"], "--only pod needs --run-pod"),
        (["check", "--service-account", "x"], "--service-account: 'x' is not NAMESPACE/NAME"),
        (["check"], "--remote-cluster, --remote-kubeconfig must be given"),
        (["status", "--system-namespace", "A"], "--system-namespace: 'A'"),
        ([*PLAN, "--node-mapping", "zones"], "--node-mapping: there is no node mapping 'zones'"),
        (["teardown"], "--remote-cluster, --remote-kubeconfig must be given"),
        (TEARDOWN, "--yes is needed where nobody can be asked"),
        ([*TEARDOWN, "--yes", "--drain-timeout", "soon"], "--drain-timeout: 'soon' is not a "),
    ],
)
def test_wrong_use_ends_with_one_line_and_exit_code_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    text = capsys.readouterr().err
    assert message in text
    assert text.count("\n") == 1


def test_no_heavy_import_before_a_command_needs_it() -> None:
    code = "import sys, provider.cli; print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = ["kubernetes_asyncio", "aiohttp", "cryptography", "rich", "pydantic", "yaml", "asyncio"]
    result = subprocess.run(
        [sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
