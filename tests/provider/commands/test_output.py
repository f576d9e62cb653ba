"""What programs are given."""

import json

import pytest
import yaml

from provider.commands.output import open_console, print_encoded

VALUE = {"b": [1, "ü"], "a": None}


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_encoded(VALUE, "json")
    text = capsys.readouterr().out
    assert json.loads(text) == VALUE
    assert text.startswith('{\n  "b"')


def test_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    print_encoded(VALUE, "yaml")
    text = capsys.readouterr().out
    assert yaml.safe_load(text) == VALUE
    assert text.startswith("b:")


def test_without_a_terminal_lines_have_80_columns_and_no_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    open_console().print("x" * 100, style="red")
    assert capsys.readouterr().out == "x" * 80 + "\n" + "x" * 20 + "\n"
