"""The list itself."""

import re
import tomllib

from image import debian, requirements
from image.contents import PACKAGES, REPOSITORY, read_contents


def test_the_version_is_the_projects() -> None:
    with (REPOSITORY / "pyproject.toml").open("rb") as opened:
        project = tomllib.load(opened)
    contents = read_contents()
    assert contents.version == project["project"]["version"]
    assert contents.labels["org.opencontainers.image.version"] == contents.version
    included = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert included == [f"{name}*" for name in PACKAGES]


def test_it_is_not_roots() -> None:
    contents = read_contents()
    assert contents.owner == (65532, 65532)
    assert contents.environment["HOME"] == contents.workdir


def test_the_lock_is_of_the_packages_that_are_listed() -> None:
    """Run `make image-lock` after a change of the list."""
    assert [package.name for package in debian.read_lock()] == sorted(read_contents().packages)


def test_what_is_left_out_is_not_locked() -> None:
    contents = read_contents()
    names = {pin.name for pin in requirements.read_pins()}
    assert not names & contents.unused
    assert contents.unused <= requirements.read_lock().keys()


def test_the_python_is_one_that_the_project_runs_on() -> None:
    contents = read_contents()
    assert f"python{contents.python}" in contents.site_packages
    assert f"python{contents.python}-minimal" in contents.packages
    minor = re.fullmatch(r"3\.(\d+)", contents.python)
    assert minor is not None
    assert int(minor[1]) >= 11
