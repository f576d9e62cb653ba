"""A node plan as text for people: fits 80 columns, wraps what is longer."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from provider.mapping.membership import NodeReason
from provider.node_report import NodeReport, VirtualNodeReport, format_resources
from provider.translation.selection import NAME_FIELD, Selection, SelectionTerm

INDENT = 2
FIRST_RESOURCES = ("cpu", "memory", "pods")


def print_plan(report: NodeReport, console: Console) -> None:
    """Print the whole plan."""
    console.print(Text(_summarize(report)))
    for node in report.virtual_nodes:
        console.print()
        console.print(_build_block(node))
    for title, reasons in (
        ("Physical nodes that stand behind no virtual node", report.left_out),
        ("Physical nodes that would get no pods now", report.ineligible),
    ):
        if reasons:
            console.print()
            console.print(Text(title, style="bold"))
            console.print(_indent(_build_reasons(reasons)))
    for number, warning in enumerate(report.warnings):
        if number == 0:
            console.print()
        console.print(Text(f"warning: {warning}", style="yellow"))


def _summarize(report: NodeReport) -> str:
    behind = {name for node in report.virtual_nodes for name in node.physical_nodes}
    total = len(behind | {item.node for item in report.left_out})
    return (
        f"Remote cluster {report.remote_cluster}, node mapping {report.mapping}:"
        f" {_count(len(report.virtual_nodes), 'virtual node')} over {len(behind)} of"
        f" {_count(total, 'physical node')}"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _build_block(node: VirtualNodeReport) -> RenderableType:
    behind = ", ".join(node.physical_nodes) or "no physical node"
    parts: list[RenderableType] = [
        Text(node.name, style="bold"),
        _indent(_build_line(f"behind it ({len(node.physical_nodes)})", behind)),
        _indent(_build_figures(node)),
        _indent(_build_line("its pods can go to", describe_selection(node.selection))),
    ]
    parts += [_indent(Text(note)) for note in node.notes]
    return Group(*parts)


def _build_line(title: str, text: str) -> Table:
    """Build a title beside text that wraps under itself."""
    line = Table.grid(padding=(0, 2))
    line.add_column(no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(f"{title}:", Text(text))
    return line


def _build_figures(node: VirtualNodeReport) -> Table:
    largest = node.figures.largest_free
    capacity = format_resources(node.figures.capacity)
    allocatable = format_resources(node.figures.allocatable)
    free = {} if largest is None else format_resources(largest.free)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("resource", overflow="fold")
    table.add_column("capacity", justify="right")
    table.add_column("allocatable", justify="right")
    title = "largest free node" if largest is None else f"largest free: {largest.name}"
    table.add_column(title, justify="right", overflow="fold")
    for name in _order_resources(capacity.keys() | allocatable.keys()):
        table.add_row(
            name, capacity.get(name, "-"), allocatable.get(name, "-"), free.get(name, "-")
        )
    return table


def _order_resources(names: Iterable[str]) -> list[str]:
    known = set(names)
    first = [name for name in FIRST_RESOURCES if name in known]
    return first + sorted(known - set(first))


def describe_selection(selection: Selection) -> str:
    """Say in a line which physical nodes a selection means."""
    return " or ".join(_describe_term(term) for term in selection.terms) or "nowhere"


def _describe_term(term: SelectionTerm) -> str:
    names = [] if term.node_name is None else [f"{NAME_FIELD}={term.node_name}"]
    parts = ", ".join([*names, *(str(item) for item in term.requirements)])
    return f"({parts})"


def _build_reasons(reasons: Sequence[NodeReason]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for item in reasons:
        table.add_row(Text(item.node), Text(item.reason))
    return table


def _indent(renderable: RenderableType) -> Padding:
    return Padding(renderable, (0, 0, 0, INDENT), expand=False)
