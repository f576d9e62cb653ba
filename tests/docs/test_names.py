"""What the documents call by its name exists: flags, values of the charts, linked files."""

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from provider.cli import COMMANDS, build_parser
from provider.config import config_fields
from tests.charts.rendering import CHARTS
from tests.charts.values_schema import build_home_schema, build_remote_schema
from tests.docs.commands import REPOSITORY, find_pages

PAGES = find_pages()
OTHERS_FLAGS = {
    "--profile": "kubectl debug",
    "--kubelet-certificate-authority": "kube-apiserver",
    "--kubelet-client-certificate": "kube-apiserver",
    "--kubelet-use-node-status-port": "metrics-server",
    "--node-monitor-grace-period": "kube-controller-manager",
    "--egress-selector-mode": "k3s",
    "--nodes": "the tests' process nodes",
}
"""Flags in running text that aren't ours, and whose they are."""

_CODE = re.compile(r"`([^`\n]+)`")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
_LINK = re.compile(r"\]\(([^)#]*)(#[^)]*)?\)")


def read_inline_code(page: Path) -> list[str]:
    """Read what is code in running text."""
    return _CODE.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))


def _our_flags() -> set[str]:
    found = set[str]()
    for name in COMMANDS:
        for action in build_parser(name)._actions:
            if isinstance(action, argparse._SubParsersAction):
                found |= set(action.choices[name]._option_string_actions)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_flags_exist(page: Path) -> None:
    named = {flag for code in read_inline_code(page) for flag in _FLAG.findall(code)}
    assert named - _our_flags() - OTHERS_FLAGS.keys() == set()


def test_flags_of_others_are_named() -> None:
    named = {
        flag for page in PAGES for code in read_inline_code(page) for flag in _FLAG.findall(code)
    }
    assert OTHERS_FLAGS.keys() <= named


def _paths(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, part in schema.get("properties", {}).items():
        yield f"{path}{key}"
        yield from _paths(part, f"{path}{key}.")


def _values() -> set[str]:
    known = {*_paths(build_home_schema()), *_paths(build_remote_schema())}
    for chart in CHARTS.iterdir():
        known |= set(_walk(yaml.safe_load((chart / "values.yaml").read_text())))
    return known | {".".join(item.path) for item in config_fields()}


def _walk(values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{path}{key}"
        if isinstance(value, Mapping):
            yield from _walk(value, f"{path}{key}.")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_values_of_charts_exist(page: Path) -> None:
    known = _values()
    tops = {path for path in known if "." not in path and path != "global"}
    for code in read_inline_code(page):
        name = code.partition("=")[0].partition(":")[0]
        if re.fullmatch(r"[a-zA-Z]+(\.[a-zA-Z]+)+", name) and name.partition(".")[0] in tops:
            assert name in known, code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    for target, anchor in _LINK.findall(text):
        if target.startswith("https://"):
            continue
        linked = page if not target else (page.parent / target).resolve()
        assert linked.exists(), target
        if anchor and linked.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-") for name in headings}
            assert anchor[1:] in slugs, f"{target}{anchor}"
