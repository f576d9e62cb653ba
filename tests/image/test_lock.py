"""What is pinned."""

import tomllib

from image import lock, requirements
from image.contents import REPOSITORY, read_contents
from image.requirements import normalize


def test_what_the_project_needs() -> None:
    with (REPOSITORY / "pyproject.toml").open("rb") as opened:
        direct = tomllib.load(opened)["project"]["dependencies"]
    needed = lock.find_needed()
    assert {normalize(text.partition(">")[0]) for text in direct} <= needed
    assert {"yarl", "cffi", "pydantic-core"} <= needed  # by others
    assert not needed & {"pytest", "mypy", "uvloop"}


def test_the_requirements_are_up_to_date() -> None:
    """Run `make image-lock` after `make lock`."""
    written = requirements.FILE.read_text(encoding="utf-8")
    assert written == lock.render_requirements(read_contents())
