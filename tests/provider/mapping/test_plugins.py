import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from provider.mapping.errors import MappingError
from provider.mapping.groups import NodeGroup
from provider.mapping.physical import PhysicalNode
from provider.mapping.plugins import PluginMapping, load_mapping
from provider.translation.selection import Selection
from tests.fakes.physical_nodes import make_node

N1, N2 = make_node("n1"), make_node("n2")
GOOD = NodeGroup(key="g", name="good", members=(N1,), selection=Selection.of_names(["n1"]))


def changed(**fields: Any) -> NodeGroup:
    """Make a group as a careless plugin would: nothing checks the types of its fields."""
    return replace(GOOD, **fields)


@dataclass
class Returning:
    """A plugin that returns what it's told to."""

    make: Callable[[Sequence[PhysicalNode]], Any]

    def group_nodes(self, nodes: Sequence[PhysicalNode]) -> Any:
        return self.make(nodes)


def group(returned: Any) -> Sequence[NodeGroup]:
    return PluginMapping("zonal", Returning(lambda _: returned)).group_nodes([N1, N2])


def test_good_groups_pass() -> None:
    capped = replace(GOOD, caps={"cpu": Decimal(2)})
    assert group([capped]) == [capped]
    assert group(()) == ()


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (None, "it returned NoneType, not a sequence of NodeGroup"),
        ("abc", "it returned str, not a sequence of NodeGroup"),
        ([GOOD, 1], "it returned a int among the groups"),
        ([GOOD, changed(name="x")], "two groups have the key 'g'"),
        (
            [GOOD, changed(key="h", members=(N2,), selection=Selection.of_names(["n2"]))],
            "group 'h': it has the same name 'good' as group 'g'",
        ),
        (
            [GOOD, changed(key="h", name="x")],
            "group 'h': node 'n1' is in group 'g' already",
        ),
        ([changed(members=(N1, N1))], "group 'g': node 'n1' is in group 'g' already"),
        ([changed(members=(make_node("n9"),))], "'n9' isn't one of the nodes"),
        ([changed(members=(make_node("n1"),))], "'n1' isn't one of the nodes"),
        ([changed(members=("n1",))], "'n1' isn't one of the nodes"),
        ([changed(name="Bad_Name")], "'Bad_Name' can't be the name of a node"),
        ([changed(name=None)], "None can't be the name of a node"),
        ([changed(selection=None)], "its selection is a NoneType"),
        ([changed(selection=Selection.of_all())], "its selection also matches 'n2'"),
        ([changed(selection=Selection())], "its selection doesn't match its member 'n1'"),
        ([changed(caps={"cpu": 1.5})], "1.5 can't be the cap of cpu"),
        ([changed(caps={"cpu": Decimal(-1)})], "can't be the cap of cpu"),
        ([changed(members=(), selection=Selection(), one_to_one=True)], "one-to-one"),
        ([changed(members=None)], "failed: TypeError"),
        ([changed(key=[])], "failed: TypeError"),
    ],
)
def test_what_cannot_be_is_one_clear_error(returned: Any, problem: str) -> None:
    with pytest.raises(MappingError) as caught:
        group(returned)
    assert str(caught.value).startswith("node mapping 'zonal'")
    assert problem in str(caught.value)


def test_a_plugin_that_raises_is_one_clear_error() -> None:
    def fail(_: Sequence[PhysicalNode]) -> Any:
        raise KeyError("zone")

    with pytest.raises(MappingError, match=r"node mapping 'zonal' failed: KeyError\('zone'\)"):
        PluginMapping("zonal", Returning(fail)).group_nodes([N1])


def test_a_plugin_may_say_why_it_left_a_node_out() -> None:
    class Explaining(Returning):
        def reason_left_out(self, node: PhysicalNode) -> str:
            return f"{node.name} has no zone"

    silent = PluginMapping("zonal", Returning(lambda _: []))
    assert silent.reason_left_out(N1) == "not chosen by the mapping zonal"
    explaining = PluginMapping("zonal", Explaining(lambda _: []))
    assert explaining.reason_left_out(N1) == "n1 has no zone"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Install a distribution with one entry point."""

    def install_plugin(target: str, source: str) -> None:
        (tmp_path / "vkubelet_zonal_plugin.py").write_text(source)
        info = tmp_path / "vkubelet_zonal_plugin-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: vkubelet-zonal-plugin\nVersion: 1\n")
        points = f"[vkubelet.node_mappings]\nzonal = vkubelet_zonal_plugin:{target}\n"
        (info / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "vkubelet_zonal_plugin", raising=False)

    return install_plugin


def test_an_installed_plugin_is_found(install: Callable[[str, str], None]) -> None:
    install(
        "Zonal",
        "class Zonal:\n    def group_nodes(self, nodes):\n        return []\n",
    )
    mapping = load_mapping("zonal")
    assert mapping.group_nodes([N1]) == []


@pytest.mark.parametrize(
    ("target", "source", "problem"),
    [
        ("Absent", "", "can't be loaded: AttributeError"),
        ("Zonal", "raise OSError('no')", "can't be loaded: OSError"),
        ("Zonal", "def Zonal():\n    raise ValueError('zone')", "can't be loaded: ValueError"),
        ("Zonal", "Zonal = object", "has no method group_nodes"),
    ],
)
def test_a_plugin_that_cannot_be_made(
    install: Callable[[str, str], None], target: str, source: str, problem: str
) -> None:
    install(target, source)
    with pytest.raises(MappingError) as caught:
        load_mapping("zonal")
    assert problem in str(caught.value)


def test_a_plugin_that_does_not_exist(install: Callable[[str, str], None]) -> None:
    install("Zonal", "Zonal = object")
    with pytest.raises(MappingError, match=r"no node mapping 'other'; .*: .*zonal"):
        load_mapping("other")
