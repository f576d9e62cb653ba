"""The page of cases names tests that exist, for every area."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cases.md"

CASES = {
    "node-mapping": 19,
    "resources": 12,
    "pod-translation": 23,
    "status": 22,
    "deletion": 9,
    "restart / watch": 10,
    "scale": 4,
    "namespaces": 5,
    "volumes/secrets": 11,
    "events": 2,
    "install/chart": 4,
    "logs": 6,
    "exec": 10,
    "portforward": 4,
    "metrics": 7,
    "certs": 8,
    "security": 6,
}
"""How many there are in each area."""


def read_page() -> dict[str, list[tuple[str, str]]]:
    """Cases and what is said of their tests, by area."""
    found: dict[str, list[tuple[str, str]]] = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        area, _, table = part.partition("\n")
        rows = re.findall(r"^\| (.+) \| (.+) \|$", table, re.MULTILINE)
        assert rows[0] == ("case", "tests")
        found[area] = rows[1:]
    return found


def names_in(path: str) -> set[str]:
    """Functions of a file of tests."""
    tree = ast.parse((ROOT / path).read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_area_is_there_with_all_its_cases() -> None:
    page = read_page()
    assert {area: len(rows) for area, rows in page.items()} == CASES
    cases = [case for rows in page.values() for case, _ in rows]
    assert len(set(cases)) == len(cases)


def test_every_test_that_is_named_exists() -> None:
    missing: list[str] = []
    for rows in read_page().values():
        for case, tests in rows:
            named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
            if not named:
                assert tests.startswith("none: "), case
            missing += [f"{path}::{name}" for path, name in named if name not in names_in(path)]
    assert missing == []
