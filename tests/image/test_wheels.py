"""Python packages."""

import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from image import requirements, wheels
from image.__main__ import find_cache
from image.contents import REPOSITORY, read_contents
from image.debian import Package
from image.errors import ImageError

FILES = {
    "it/__init__.py": b"1",
    "it-1.dist-info/METADATA": b"2",
    "it-1.data/purelib/pure.py": b"3",
    "it-1.data/platlib/plat.so": b"4",
    "it-1.data/scripts/it": b"5",
    "it-1.data/headers/it.h": b"6",
}


def test_what_a_wheel_installs(tmp_path: Path) -> None:
    wheel = tmp_path / "it-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.mkdir("it")
        for name, data in FILES.items():
            archive.writestr(name, data)
    assert dict(wheels.read_files(wheel)) == {
        "it/__init__.py": b"1",
        "it-1.dist-info/METADATA": b"2",
        "pure.py": b"3",
        "plat.so": b"4",
    }


@pytest.mark.timeout(120)
def test_the_projects_own(tmp_path: Path) -> None:
    files = dict(wheels.read_files(wheels.build_project(tmp_path)))
    assert {name.partition("/")[0] for name in files} == {
        "vkubelet",
        "certs",
        "provider",
        f"vkubelet-{read_contents().version}.dist-info",
    }
    module = "provider/cli.py"
    assert files[module] == (REPOSITORY / module).read_bytes()
    assert not [name for name in files if name.endswith(".pyc")]


@pytest.mark.timeout(120)
def test_what_can_not_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ImageError, match=r"pip download: ERROR: No matching distribution .*aioh"):
        wheels.fetch(read_contents(), tmp_path)
    assert list((tmp_path / "wheels").iterdir()) == []  # nothing that looks whole


def test_the_cache_is_enough(packages: Sequence[Package], monkeypatch: pytest.MonkeyPatch) -> None:
    contents = read_contents()
    first = wheels.fetch(contents, find_cache())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert wheels.fetch(contents, find_cache()) == first
    assert len(first) == len(requirements.read_pins())


def test_two_builds_at_once(
    packages: Sequence[Package], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = read_contents()
    there = wheels.fetch(contents, find_cache())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(there[0].parent))
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(wheels.fetch, [contents] * 2, [tmp_path] * 2)
    assert first == second
    assert [wheel.name for wheel in first] == [wheel.name for wheel in there]
