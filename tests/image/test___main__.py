"""The command line."""

from pathlib import Path

import pytest

from image.__main__ import find_cache, main


@pytest.mark.parametrize("argv", [[], ["other"], ["build", "more"], ["root"]])
def test_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err == "usage: python -m image build | root FILE | lock\n"


@pytest.mark.parametrize("argv", [["build"], ["root", "/nowhere/root.tar"], ["lock"]])
def test_one_error(
    argv: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no apt
    assert main(argv) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: this machine ")


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKUBELET_CACHE", "/c")
    assert find_cache() == Path("/c/image")
    monkeypatch.delenv("VKUBELET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert find_cache() == Path("/x/vkubelet/image")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert find_cache() == Path("/h/.cache/vkubelet/image")
