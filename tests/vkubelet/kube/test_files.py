import os
from pathlib import Path

import pytest

from vkubelet.kube.errors import AccessError
from vkubelet.kube.files import (
    MAX_FILE_BYTES,
    SERVICE_ACCOUNT_FOLDER,
    FileReader,
    check_inside,
    take_stamp,
    unchanged,
)


def test_stamps_tell_changes(tmp_path: Path) -> None:
    reader = FileReader()
    path = tmp_path / "file"
    path.write_text("one")
    assert reader.read(path, "token") == b"one"
    reader.watch(tmp_path / "missing")
    assert unchanged(reader.stamps)
    (tmp_path / "fresh").write_text("two")
    (tmp_path / "fresh").rename(path)
    assert not unchanged(reader.stamps)
    reader.read(path, "token")
    assert unchanged(reader.stamps)
    (tmp_path / "missing").touch()
    assert not unchanged(reader.stamps)


def test_stamp_follows_links(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("same")
    (tmp_path / "b").write_text("same")
    link = tmp_path / "link"
    link.symlink_to("a")
    before = take_stamp(link)
    link.unlink()
    link.symlink_to("b")
    assert take_stamp(link) != before


def test_files_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AccessError, match=r"token: .*pipe isn't a regular file"):
        FileReader().read(tmp_path / "pipe", "token")
    with pytest.raises(AccessError, match=r"token: .*: "):
        FileReader().read(tmp_path, "token")
    with pytest.raises(AccessError, match="isn't a regular file"):
        FileReader().read(Path("/dev/zero"), "token")
    with pytest.raises(AccessError, match="No such file"):
        FileReader().read(tmp_path / "missing", "token")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(AccessError, match="larger than"):
        FileReader().read(tmp_path / "large", "token")


def test_inside(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert check_inside(tmp_path / "b" / ".." / "a", tmp_path, "x") == (tmp_path / "a").resolve()
    (tmp_path / "out").symlink_to("/etc")
    for path in (tmp_path / "out" / "hostname", tmp_path.parent, Path("/etc/hostname")):
        with pytest.raises(AccessError, match="outside"):
            check_inside(path, tmp_path, "x")


def test_nothing_is_inside_the_root_folder() -> None:
    with pytest.raises(AccessError, match="outside"):
        check_inside(Path("/etc/hostname"), Path("/"), "tokenFile")


def test_own_service_account_is_never_inside() -> None:
    path = SERVICE_ACCOUNT_FOLDER / "token"
    for folder in (SERVICE_ACCOUNT_FOLDER, SERVICE_ACCOUNT_FOLDER.parent.parent):
        with pytest.raises(AccessError, match="outside"):
            check_inside(path, folder, "tokenFile")


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(AccessError, match="loop"):
        FileReader().read(check_inside(tmp_path / "loop", tmp_path, "x"), "x")
