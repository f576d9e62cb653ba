"""The image itself: what is in it, what isn't, and that it runs as it's going to."""

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from image import build, debian
from image.__main__ import find_cache
from image.build import Built, Files
from image.contents import PACKAGES, REPOSITORY, Contents
from image.debian import Package
from image.requirements import read_pins
from image.revision import read_labels
from image.sbom import PATH as SBOM

MAX_BYTES = 120e6
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_SHELLS = {"sh", "bash", "dash", "busybox", "perl"}
_IMPORT_ALL = f"""
import importlib, pkgutil
import kubernetes_asyncio.config
for name in {PACKAGES}:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, name + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
"""


@pytest.fixture
def paths(files: Files) -> set[str]:
    return {path for layer in files.layers for path in layer.paths()}


def test_size(built: Built) -> None:
    assert built.packed_bytes == built.archive.stat().st_size
    assert built.packed_bytes < built.unpacked_bytes <= MAX_BYTES


def test_it_is_built_the_same_again(
    contents: Contents, packages: Sequence[Package], built: Built, tmp_path: Path
) -> None:
    files = build.collect(contents, packages, cache=find_cache(), report=print)
    again = build.write(contents, files, tmp_path / "dist")
    assert again.digest == built.digest
    assert again.archive.read_bytes() == built.archive.read_bytes()
    assert again.sbom.read_bytes() == built.sbom.read_bytes()


def test_names_of_what_is_built(contents: Contents, built: Built) -> None:
    assert built.archive.name == f"vkubelet-{contents.version}-amd64.oci.tar"
    assert built.sbom.name == f"vkubelet-{contents.version}.cdx.json"


def test_labels(contents: Contents, built: Built) -> None:
    with tarfile.open(built.archive) as tar:
        opened = tar.extractfile(f"blobs/{built.digest.replace(':', '/')}")
        assert opened is not None
        labels = json.load(opened)["annotations"]
    assert labels["org.opencontainers.image.version"] == contents.version
    assert labels == {**contents.labels, **read_labels(REPOSITORY)}


def test_no_shell(paths: set[str]) -> None:
    programs = {path for path in paths if path.startswith(("usr/bin/", "usr/sbin/"))}
    assert programs == {"usr/bin/python3.11"}
    assert not {Path(path).name for path in paths} & _SHELLS


def test_nothing_is_writable(files: Files, contents: Contents) -> None:
    """But for /tmp and the home of the one user."""
    writable = {
        path
        for layer in files.layers
        for path, entry in layer.entries.items()
        if entry.mode & 0o022 and entry.kind != tarfile.SYMTYPE
    }
    assert writable == {"tmp"}
    owned = {
        path
        for layer in files.layers
        for path, entry in layer.entries.items()
        if entry.owner != (0, 0)
    }
    assert owned == {contents.workdir.lstrip("/")}


def test_each_package_has_its_licence(packages: Sequence[Package], paths: set[str]) -> None:
    """Some have that of the package that they are built with."""
    shared = {"libpython3.11-minimal", "libpython3.11-stdlib", "libgcc-s1", "libstdc++6"}
    names = {package.name for package in packages} - shared
    assert names <= {
        path.split("/")[3]
        for path in paths
        if path.startswith("usr/share/doc/") and path.endswith("/copyright")
    }


def test_the_list_of_what_is_in_it(packages: Sequence[Package], built: Built, root: Path) -> None:
    assert (root / SBOM).read_bytes() == built.sbom.read_bytes()
    listed = json.loads(built.sbom.read_bytes())["components"]
    assert [(item["name"], item["version"]) for item in listed] == [
        *((package.name, package.version) for package in packages),
        *((pin.name, pin.version) for pin in read_pins()),
    ]
    folder = next((root / "usr/local/lib").iterdir()) / "dist-packages"
    installed = {path.name.partition("-")[0].lower() for path in folder.glob("*.dist-info")}
    assert installed == {*(pin.name.replace("-", "_") for pin in read_pins()), "vkubelet"}


def test_every_library_is_there(root: Path) -> None:
    """Each shared object finds what it needs inside the image, by the image's own loader."""
    loader = root / _LIBRARIES / "ld-linux-x86-64.so.2"
    objects = [path for path in root.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    assert len(objects) > 50
    missing = {
        (path.name, line.split()[0])
        for path in [root / "usr/bin/python3.11", *objects]
        for line in _list_libraries(loader, root, path)
        if f"{root}/" not in line
    }
    assert missing == set()


def _list_libraries(loader: Path, root: Path, path: Path) -> Iterator[str]:
    done = subprocess.run(
        [loader, "--library-path", root / _LIBRARIES, "--list", path],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        if "linux-vdso" not in line and "statically linked" not in line:
            yield line


@pytest.fixture
def sealed(root: Path) -> list[str]:
    """The start of a command that runs as in a pod: read-only, not as root, without a shell."""
    if os.geteuid() != 0:
        pytest.skip("only root can change its root")
    script = (
        'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
        ' && exec /usr/sbin/chroot --userspec=65532:65532 "$0" "$@"'
    )
    return ["/usr/bin/unshare", "--mount", "sh", "-c", script, str(root)]


def test_the_program_runs(contents: Contents, sealed: Sequence[str]) -> None:
    done = subprocess.run(
        [*sealed, *contents.entrypoint, *contents.command],
        capture_output=True,
        text=True,
        check=False,
        env=dict(contents.environment),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"vkubelet {contents.version}\n"


def test_all_modules_can_be_imported(contents: Contents, sealed: Sequence[str]) -> None:
    done = subprocess.run(
        [*sealed, "/usr/bin/python3.11", "-I", "-W", "error", "-c", _IMPORT_ALL],
        capture_output=True,
        text=True,
        check=False,
        env=dict(contents.environment),
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_certificates_are_trusted(contents: Contents, sealed: Sequence[str]) -> None:
    count = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    done = subprocess.run(
        [*sealed, "/usr/bin/python3.11", "-I", "-c", count],
        capture_output=True,
        text=True,
        check=True,
        env=dict(contents.environment),
    )
    assert int(done.stdout) > 100


def test_the_lock_is_what_is_built(packages: Sequence[Package]) -> None:
    assert [package.name for package in packages] == [
        package.name for package in debian.read_lock()
    ]
