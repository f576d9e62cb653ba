"""The dashboard shows metrics that there are."""

import importlib
import json
import re

from prometheus_client import REGISTRY

from tests.charts.rendering import HOME


def test_every_metric_is_there_and_is_shown() -> None:
    importlib.import_module("provider.app")
    dashboard = json.loads((HOME / "dashboards" / "vkubelet.json").read_text())
    expressions = " ".join(
        target["expr"] for panel in dashboard["panels"] for target in panel["targets"]
    )
    shown = {
        re.sub("_bucket$", "", name)
        for name in re.findall(r"\b((?:vkubelet|process)_\w+)\{", expressions)
    }
    there = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in REGISTRY.collect()
    }
    assert shown <= there
    ours = {name for name in there if name.startswith("vkubelet_")}
    assert ours - shown == {"vkubelet_reconcile_seconds", "vkubelet_tasks"}


def test_panels_do_not_overlap() -> None:
    dashboard = json.loads((HOME / "dashboards" / "vkubelet.json").read_text())
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(places)
