"""Debian packages: pinned by a lock file, fetched by apt, read without being installed."""

import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from image.contents import FOLDER, Contents
from image.errors import ImageError

LOCK = FOLDER / "debian.lock"
ARCHITECTURE = "amd64"
"""The lock is of this one."""

_HEAD = "# Written by `make image-lock`: package, version, SHA-256 of the file.\n"
_PROGRAMS = ("apt-get", "apt-cache", "dpkg-deb")


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package of one version."""

    name: str
    version: str
    sha256: str


def read_lock(file: Path = LOCK) -> list[Package]:
    """Read the lock, by name."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [Package(*line.split()) for line in lines if line and not line.startswith("#")]


def render_lock(packages: Sequence[Package]) -> str:
    """Render the lock."""
    lines = (f"{package.name} {package.version} {package.sha256}\n" for package in packages)
    return _HEAD + "".join(lines)


def check_machine(contents: Contents) -> None:
    """
    Check that the packages can be fetched and read here.

    Raises:
        ImageError: If not.
    """
    needed = f"Debian {contents.release} on {ARCHITECTURE}"
    if problem := _find_problem(contents.release):
        raise ImageError(
            f"this machine {problem}, and `make image` needs {needed}: build there, or by the"
            " Containerfile anywhere"
        )


def _find_problem(release: str) -> str:
    machine = {"x86_64": "amd64"}.get(platform.machine(), platform.machine())
    if machine != ARCHITECTURE:
        return f"is of the architecture {machine}"
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return "doesn't tell its system"
    if system.get("VERSION_CODENAME") != release or system.get("ID") != "debian":
        return f"runs {system.get('PRETTY_NAME', system.get('ID'))}"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"has no {', '.join(missing)}" if missing else ""


class Apt:
    """
    The machine's apt and its sources, with lists of our own: it isn't changed, nor root needed.

    Args:
        folder: Where its lists are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def update(self) -> None:
        """
        Fetch what is offered now.

        Raises:
            ImageError: If that can't be had.
        """
        (self._folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        self._run("apt-get", "-o", "APT::Update::Error-Mode=any", "update")

    def resolve(self, names: Sequence[str]) -> list[Package]:
        """
        Find the versions that are offered.

        Raises:
            ImageError: If one isn't.
        """
        shown = self._run("apt-cache", "show", "--no-all-versions", *names)
        found: dict[str, Package] = {}
        for paragraph in shown.split("\n\n"):
            fields = dict(re.findall(r"^(\w+): (.+)$", paragraph, re.MULTILINE))
            if "Package" in fields:
                name = fields["Package"]
                found[name] = Package(name, fields["Version"], fields["SHA256"])
        return [found[name] for name in sorted(names)]

    def download(self, packages: Sequence[Package], folder: Path) -> dict[str, Path]:
        """
        Download packages into an empty folder; the files by name.

        Raises:
            ImageError: If one isn't offered any more.
        """
        wanted = [f"{package.name}={package.version}" for package in packages]
        try:
            self._run("apt-get", "download", *wanted, folder=folder)
        except ImageError as error:
            raise ImageError(
                f"{error} (what Debian has replaced isn't offered any more: `make image-lock` takes"
                " what is)"
            ) from error
        return {file.name.partition("_")[0]: file for file in folder.glob("*.deb")}

    def _run(self, program: str, *arguments: str, folder: Path | None = None) -> str:
        options = {
            "Dir::State::Lists": self._folder / "lists",
            "Dir::State::status": "/dev/null",  # what is installed here doesn't matter
            "Dir::Cache": self._folder,
            "APT::Architecture": ARCHITECTURE,
            "APT::Sandbox::User": "root",  # the folders are this user's
        }
        settings = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
        done = subprocess.run(
            [program, "--quiet", *settings, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env=_build_environment(),
        )
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W:"))]
            raise ImageError(f"{program}: {said[0][2:].strip() if said else done.stderr.strip()}")
        return done.stdout


def resolve(contents: Contents, cache: Path) -> list[Package]:
    """
    Find the versions that Debian offers now.

    Raises:
        ImageError: If one isn't offered.
    """
    apt = Apt(cache / "apt")
    apt.update()
    return apt.resolve(contents.packages)


def fetch(packages: Sequence[Package], cache: Path) -> list[Path]:
    """
    Fetch the packages' files, unless they are in the cache.

    Raises:
        ImageError: If one isn't offered any more, or isn't what was locked.
    """
    folder = cache / "debian"
    folder.mkdir(parents=True, exist_ok=True)
    if missing := [package for package in packages if not _locate(package, folder).exists()]:
        apt = Apt(cache / "apt")
        apt.update()
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            downloaded = apt.download(missing, Path(temporary))
            for package in missing:
                downloaded[package.name].rename(_locate(package, folder))
    files = [_locate(package, folder) for package in packages]
    for package, file in zip(packages, files, strict=True):
        _check(package, file)
    return files


def _locate(package: Package, folder: Path) -> Path:
    return folder / f"{package.name}_{package.sha256[:16]}.deb"


def _check(package: Package, file: Path) -> None:
    if hashlib.sha256(file.read_bytes()).hexdigest() != package.sha256:
        file.unlink()
        raise ImageError(f"{package.name} {package.version} isn't the file that was locked")


def read_members(file: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """
    Yield a package's files, with their contents.

    Raises:
        ImageError: If it isn't a package.
    """
    done = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", file],
        capture_output=True,
        check=False,
        env=_build_environment(),
    )
    if done.returncode != 0:
        raise ImageError(done.stderr.decode(errors="replace").strip())
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        for member in tar:
            opened = tar.extractfile(member) if member.isreg() else None
            yield member, b"" if opened is None else opened.read()


def _build_environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8"}
