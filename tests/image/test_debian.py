"""Debian packages, from a repository of this test."""

import hashlib
import platform
import subprocess
from pathlib import Path

import pytest

from image import debian
from image.contents import Contents, read_contents
from image.debian import Apt, Package
from image.errors import ImageError
from tests.image.conftest import need_machine


@pytest.fixture
def here() -> Contents:
    contents = read_contents()
    need_machine(contents)
    return contents


class Repository:
    """What apt is told to fetch from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.publish()

    def add(self, name: str, version: str, content: str = "x") -> Package:
        """Put a package in the place of any other of that name."""
        source = self.folder / "source" / name
        (source / "DEBIAN").mkdir(parents=True, exist_ok=True)
        (source / "usr" / "share").mkdir(parents=True, exist_ok=True)
        (source / "usr" / "share" / name).write_text(content)
        control = (
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n"
            "Maintainer: t <t@example.com>\nDescription: test\n"
        )
        (source / "DEBIAN" / "control").write_text(control)
        file = self.folder / f"{name}.deb"
        subprocess.run(
            ["dpkg-deb", "--build", "--root-owner-group", source, file],
            check=True,
            capture_output=True,
        )
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        fields = f"Filename: ./{name}.deb\nSize: {file.stat().st_size}\nSHA256: {digest}\n"
        (self.folder / f"{name}.entry").write_text(f"{control}{fields}\n")
        self.publish()
        return Package(name, version, digest)

    def publish(self) -> None:
        entries = (file.read_text() for file in sorted(self.folder.glob("*.entry")))
        (self.folder / "Packages").write_text("".join(entries))


@pytest.fixture
def repository(here: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    repository = Repository(tmp_path / "repository")
    sources = tmp_path / "sources.list"
    sources.write_text(f"deb [trusted=yes] file:{repository.folder} ./\n")
    settings = tmp_path / "apt.conf"
    settings.write_text(
        f'Dir::Etc::sourcelist "{sources}";\nDir::Etc::sourceparts "{tmp_path / "none"}";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(settings))
    return repository


def test_fetched_once(repository: Repository, tmp_path: Path) -> None:
    packages = [repository.add("one", "1:1.0+b1"), repository.add("two", "2")]
    cache = tmp_path / "cache"
    files = debian.fetch(packages, cache)
    for package, file in zip(packages, files, strict=True):
        assert hashlib.sha256(file.read_bytes()).hexdigest() == package.sha256
    (repository.folder / "one.deb").unlink()
    (repository.folder / "Packages").unlink()
    assert debian.fetch(packages, cache) == files
    assert sorted((cache / "debian").iterdir()) == sorted(files)


def test_the_versions_that_are_offered(repository: Repository, tmp_path: Path) -> None:
    two, one = repository.add("two", "2"), repository.add("one", "1")
    apt = Apt(tmp_path / "cache" / "apt")
    apt.update()
    assert apt.resolve(["two", "one"]) == [one, two]
    with pytest.raises(ImageError, match=r"apt-cache: No packages found|Unable to locate .*three"):
        apt.resolve(["three"])


def test_a_version_that_was_replaced(repository: Repository, tmp_path: Path) -> None:
    old = repository.add("one", "1.0")
    repository.add("one", "1.1")
    with pytest.raises(ImageError, match=r"'1\.0' for 'one' was not found .*make image-lock"):
        debian.fetch([old], tmp_path / "cache")


def test_another_file_than_was_locked(repository: Repository, tmp_path: Path) -> None:
    locked = repository.add("one", "1.0")
    repository.add("one", "1.0", content="changed")
    cache = tmp_path / "cache"
    with pytest.raises(ImageError, match=r"one 1\.0 isn't the file that was locked"):
        debian.fetch([locked], cache)
    assert list((cache / "debian").iterdir()) == []


def test_a_repository_that_is_not_there(repository: Repository, tmp_path: Path) -> None:
    (repository.folder / "Packages").unlink()
    with pytest.raises(ImageError, match=r"apt-get: .*Packages"):
        debian.fetch([Package("one", "1", "0" * 64)], tmp_path / "cache")


def test_files_of_a_package(repository: Repository, tmp_path: Path) -> None:
    (file,) = debian.fetch([repository.add("one", "1", content="hello")], tmp_path / "cache")
    found = {member.name: data for member, data in debian.read_members(file) if member.isreg()}
    assert found == {"./usr/share/one": b"hello"}
    file.write_bytes(b"!")
    with pytest.raises(ImageError, match=r"is not a Debian format archive|unexpected end of file"):
        list(debian.read_members(file))


def test_lock_file(tmp_path: Path) -> None:
    packages = [Package("one", "1:1.0+b1", "a" * 64), Package("two", "2~rc1", "b" * 64)]
    file = tmp_path / "debian.lock"
    file.write_text(debian.render_lock(packages))
    assert debian.read_lock(file) == packages


@pytest.mark.parametrize(
    ("system", "problem"),
    [
        ({"ID": "debian", "VERSION_CODENAME": "trixie", "PRETTY_NAME": "Debian 13"}, "Debian 13"),
        ({"ID": "ubuntu", "VERSION_CODENAME": "noble", "PRETTY_NAME": "Ubuntu 24"}, "Ubuntu 24"),
        ({"ID": "alpine"}, "runs alpine"),
    ],
)
def test_another_system(
    system: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)
    with pytest.raises(ImageError, match=f"{problem}, and .* needs Debian bookworm on amd64: .*C"):
        debian.check_machine(read_contents())


def test_another_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(ImageError, match="this machine is of the architecture aarch64"):
        debian.check_machine(read_contents())


def test_programs_that_are_missing(
    here: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match="this machine has no apt-get, apt-cache, dpkg-deb, and"):
        debian.check_machine(here)
