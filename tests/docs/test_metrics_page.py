"""The page of metrics names all that there are, and no others."""

import importlib
import re
from pathlib import Path

from prometheus_client import REGISTRY

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_all_are_named() -> None:
    importlib.import_module("provider.app")
    prefix = "vkubelet_"
    there = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in REGISTRY.collect()
        if family.name.startswith(prefix)
    }
    table = re.findall(rf"^\| `({prefix}\w+)`", PAGE.read_text(), re.MULTILINE)
    assert sorted(table) == sorted(there)
