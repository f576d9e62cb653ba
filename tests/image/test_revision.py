"""Labels that tell where an image comes from."""

import subprocess
from pathlib import Path

import pytest

from image.revision import REVISION, SOURCE, normalize_url, read_labels


def _git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    _git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("one")
    _git(tmp_path, "add", "file")
    _git(tmp_path, "commit", "--quiet", "--message=Begin")
    return tmp_path


def test_a_commit(checkout: Path) -> None:
    _git(checkout, "tag", "v1")  # isn't what is asked for
    assert read_labels(checkout) == {
        REVISION: _git(checkout, "rev-parse", "HEAD"),
        SOURCE: "unknown",
    }


def test_changes_that_are_not_committed_show(checkout: Path) -> None:
    (checkout / "file").write_text("two")
    assert read_labels(checkout)[REVISION] == f"{_git(checkout, 'rev-parse', 'HEAD')}-dirty"


def test_the_source_is_where_others_find_it(checkout: Path) -> None:
    _git(checkout, "remote", "add", "origin", "https://me:secret@git.example.com/a/b.git")
    assert read_labels(checkout)[SOURCE] == "https://git.example.com/a/b"


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert read_labels(tmp_path) == {REVISION: "unknown", SOURCE: "unknown"}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_labels(tmp_path) == {REVISION: "unknown", SOURCE: "unknown"}


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://git.example.com/a/b", "https://git.example.com/a/b"),
        ("https://token@git.example.com/a/b.git", "https://git.example.com/a/b"),
        ("git@git.example.com:a/b.git", "https://git.example.com/a/b"),
        ("ssh://git@git.example.com/a/b", "https://git.example.com/a/b"),
        ("/srv/git/b", ""),
        ("file:///srv/git/b", ""),
        ("", ""),
    ],
)
def test_urls(url: str, normal: str) -> None:
    assert normalize_url(url) == normal
