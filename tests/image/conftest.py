"""Fixtures: the image, built once of what the registries have; skipped where it can't be built."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from image import build, debian
from image.__main__ import find_cache
from image.build import Built, Files
from image.contents import Contents, read_contents
from image.debian import Package
from image.errors import ImageError

_TIMEOUT_SECONDS = 300


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one worker run what needs the image, which may have to be fetched."""
    for item in items:
        if isinstance(item, pytest.Function) and "packages" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("image"))
            item.add_marker(pytest.mark.timeout(_TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def contents() -> Contents:
    return read_contents()


def need_machine(contents: Contents) -> None:
    """Skip the test where no image can be built; CI is to run where it can, and fails."""
    try:
        debian.check_machine(contents)
    except ImageError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def find_packages(contents: Contents, cache: Path) -> Sequence[Package]:
    """What is locked, or what is offered now where Debian has replaced some of that."""
    locked = debian.read_lock()
    try:
        debian.fetch(locked, cache)
    except ImageError as error:
        if "offered" not in str(error):
            raise
        return debian.resolve(contents, cache)
    return locked


@pytest.fixture(scope="session")
def packages(contents: Contents) -> Sequence[Package]:
    need_machine(contents)
    return find_packages(contents, find_cache())


@pytest.fixture(scope="session")
def files(contents: Contents, packages: Sequence[Package]) -> Files:
    return build.collect(contents, packages, cache=find_cache(), report=print)


@pytest.fixture(scope="session")
def built(contents: Contents, files: Files, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build.write(contents, files, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def root(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's files, unpacked."""
    folder = tmp_path_factory.mktemp("root")
    folder.chmod(0o755)
    folder.parent.chmod(0o755)
    for layer in files.layers:
        layer.extract(folder)
    return folder
