"""Files of a layer."""

import io
import tarfile
from pathlib import Path

import pytest

from image.rootfs import Layer, add_skeleton, bundle_certificates, find_authorities, normalize


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("./", ""),
        ("./usr/bin/x", "usr/bin/x"),
        ("./lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("./lib64/ld.so", "usr/lib64/ld.so"),
        ("bin/sh", "usr/bin/sh"),
        ("./library", "library"),
    ],
)
def test_names(name: str, path: str) -> None:
    assert normalize(name) == path


def _member(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    for key, value in fields.items():
        setattr(member, key, value)
    return member


def _read(layer: Layer) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(layer.as_tar())) as tar:
        return tar.getmembers()


def _keep_all(path: str) -> bool:
    return True


def test_members_of_packages() -> None:
    layer = Layer()
    layer.add_member(_member("./bin/su", mode=0o4775), b"su", _keep_all)
    layer.add_member(_member("./usr/lib/x", tarfile.SYMTYPE, linkname="y"), b"", _keep_all)
    layer.add_member(_member("./bin/hard", tarfile.LNKTYPE, linkname="./bin/su"), b"", _keep_all)
    layer.add_member(_member("./usr/empty", tarfile.DIRTYPE), b"", _keep_all)
    found = {member.name: member for member in _read(layer)}
    assert found.keys() == {"usr", "usr/bin", "usr/bin/su", "usr/lib", "usr/lib/x", "usr/bin/hard"}
    assert found["usr/bin/su"].mode == 0o755  # runs as who starts it
    assert found["usr/lib/x"].linkname == "y"
    assert layer.read("usr/bin/hard") == b"su"
    assert layer.size_bytes == 4


def test_what_is_not_wanted() -> None:
    layer = Layer()
    layer.add_member(_member("./usr/share/man/x"), b"x", lambda path: "man" not in path)
    assert layer.paths() == []


def test_the_tar_is_always_the_same() -> None:
    first, second = Layer(), Layer()
    for layer, names in ((first, ("b/x", "a")), (second, ("a", "b/x"))):
        for name in names:
            layer.add_file(name, b"data")
    assert first.as_tar() == second.as_tar()
    assert [member.name for member in _read(first)] == ["a", "b", "b/x"]
    assert {(member.mtime, member.uid, member.gid) for member in _read(first)} == {(0, 0, 0)}


def test_skeleton() -> None:
    layer = Layer()
    add_skeleton(layer, (65532, 65532), "/var/lib/it")
    found = {member.name: member for member in _read(layer)}
    assert found["lib"].linkname == "usr/lib"
    assert found["tmp"].mode == 0o1777
    home = found["var/lib/it"]
    assert (home.uid, home.gid, home.mode) == (65532, 65532, 0o700)
    assert found["var/lib"].uid == 0
    assert b"vkubelet:x:65532:65532::/var/lib/it:" in layer.read("etc/passwd")


def test_one_layer_above_another() -> None:
    lower, upper = Layer(), Layer()
    lower.add_file("both", b"old")
    lower.add_file("lower", b"")
    upper.add_file("both", b"new")
    lower.add_all(upper)
    assert lower.paths() == ["both", "lower"]
    assert lower.read("both") == b"new"


def test_unpacking(tmp_path: Path) -> None:
    layer = Layer()
    layer.add_file("bin/x", b"program", mode=0o555)
    layer.add_link("link", "bin/x")
    layer.add_folder("empty")
    layer.extract(tmp_path)
    assert (tmp_path / "link").read_bytes() == b"program"
    assert (tmp_path / "bin/x").stat().st_mode & 0o777 == 0o755  # can be changed
    assert (tmp_path / "empty").is_dir()


def test_certificates() -> None:
    layer = Layer()
    layer.add_file("usr/share/ca-certificates/mozilla/B.crt", b"b\n\n")
    layer.add_file("usr/share/ca-certificates/mozilla/A.crt", b"a")
    layer.add_file("usr/share/ca-certificates/README", b"no")
    files = {path: layer.read(path) for path in find_authorities(layer)}
    assert bundle_certificates(files) == b"a\nb\n"
