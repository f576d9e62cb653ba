"""The charts' files: one object each, called after its kind."""

import re
from pathlib import Path

import pytest

from tests.charts.rendering import HOME, REMOTE

FILES = sorted(file for chart in (HOME, REMOTE) for file in (chart / "templates").rglob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parts[-3]}/{file.name}")
def test_one_kind_a_file_called_after_it(file: Path) -> None:
    (kind,) = re.findall(r"^kind: (\w+)$", file.read_text(), re.MULTILINE)
    assert kind.lower() in file.name.replace("-", "")


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parts[-3]}/{file.name}")
def test_blocks_are_closed(file: Path) -> None:
    text = file.read_text()
    opened = len(re.findall(r"\{\{-? (?:if|range|with|define) ", text))
    assert len(re.findall(r"\{\{-? end -?\}\}", text)) == opened
