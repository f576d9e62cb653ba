"""An overview as text for people: fits 80 columns, wraps what is longer."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from provider.commands.words import format_age, format_seconds, shorten_quantity
from provider.overview.report import LockReport, NodeStatus, Overview, PeeringStatus
from provider.vitals import Lag, Vitals
from vkubelet.times import parse_time

INDENT = 2
MAX_REASONS = 10
"""Of more reasons only the most frequent ones are shown."""

_SHOWN_APART = frozenset({"cpu", "memory", "pods"})
_STYLES = {"True": "green", "False": "red", "Unknown": "red"}


def build_overview_table(overview: Overview) -> RenderableType:
    """Lay the overview out."""
    parts: list[RenderableType] = []
    for peering in overview.peerings:
        if parts:
            parts.append(Text())
        parts += _build_peering(peering, overview.taken_at)
    if not overview.peerings:
        parts.append(Text("no peering: this cluster has no virtual nodes of ours"))
    for warning in overview.warnings:
        parts.append(Text(f"warning: {warning}", style="yellow"))
    if overview.trouble:
        parts.append(Text(overview.trouble, style="red"))
    return Group(*parts)


def _build_peering(peering: PeeringStatus, now: datetime) -> Iterator[RenderableType]:
    title = Text(f"Peering {peering.name}", style="bold")
    title.append(f": {_describe_state(peering, now)}", style="not bold")
    yield title
    lines = [
        *(("lock", _describe_lock(lock, now)) for lock in peering.locks),
        *(_describe_vitals(peering.vitals) if peering.vitals is not None else ()),
        ("pods", _describe_pods(peering)),
    ]
    yield _indent(_build_lines(lines))
    if peering.reasons:
        yield _indent(_build_reasons(peering), INDENT * 2)
    if peering.nodes:
        yield _indent(_build_nodes(peering.nodes, now))
        yield from (_indent(line) for line in _build_notes(peering.nodes))


def _describe_state(peering: PeeringStatus, now: datetime) -> str:
    vitals = peering.vitals
    if vitals is None:
        held = any(lock.is_held for lock in peering.locks)
        return "served, but it doesn't say how it fares" if held else "not served"
    state = f"not ready, {vitals.not_ready}" if vitals.not_ready else "ready"
    started_at = parse_time(vitals.started_at)
    up = "" if started_at is None else f", up {format_age(now - started_at)}"
    return f"{state}; version {vitals.version}{up}"


def _describe_lock(lock: LockReport, now: datetime) -> str:
    renewed = "never" if lock.renewed_at is None else f"{format_age(now - lock.renewed_at)} ago"
    if not lock.holder:
        return f"{lock.key}, held by nobody, last written {renewed}"
    stale = "" if lock.is_fresh else " (no more)"
    return f"{lock.key}, held by {lock.holder}{stale}, renewed {renewed}"


def _describe_vitals(vitals: Vitals) -> Iterator[tuple[str, str]]:
    errors = ", ".join(
        f"{cluster} {amount.recent} in 5 minutes ({amount.total} since the start)"
        for cluster, amount in sorted(vitals.api_errors.items())
    )
    yield "API errors", errors or "none"
    lags = ("pods", vitals.create_lag), ("statuses", vitals.status_lag)
    yield "lag", ", ".join(f"{what} {_describe_lag(lag)}" for what, lag in lags)


def _describe_lag(lag: Lag) -> str:
    if lag.p50 is None:
        return "none lately"
    return f"{format_seconds(lag.p50)} (99 %: {format_seconds(lag.p99)})"


def _describe_pods(peering: PeeringStatus) -> str:
    phases = (f"{number} {phase}" for phase, number in peering.phases.items())
    return ", ".join(phases) or "none"


def _build_lines(lines: Iterable[tuple[str, str]]) -> Table:
    """Build titles beside text that wraps under itself."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for title, text in lines:
        table.add_row(f"{title}:", Text(text))
    return table


def _build_reasons(peering: PeeringStatus) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, justify="right")
    table.add_column(overflow="fold")
    for item in peering.reasons[:MAX_REASONS]:
        text = Text(item.reason, style="yellow")
        message = f": {item.message}" if item.message else ""
        text.append(f"  {item.example}{message}", style="default")
        table.add_row(f"{item.count} {item.phase}", text)
    others = sum(item.count for item in peering.reasons[MAX_REASONS:])
    if others:
        table.add_row(str(others), Text("for other reasons; -o yaml has them all"))
    return table


def _build_nodes(nodes: Iterable[NodeStatus], now: datetime) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("virtual node", overflow="fold")
    table.add_column("ready", overflow="fold")
    for title in ("members", "cpu", "memory", "largest free", "pods", "cert"):
        table.add_column(title, justify="right", overflow="fold")
    for node in nodes:
        table.add_row(
            Text(node.name),
            _describe_ready(node),
            "-" if node.members is None else f"{node.eligible}/{node.members}",
            _describe_amount(node, "cpu"),
            _describe_amount(node, "memory"),
            _describe_largest(node),
            _describe_amount(node, "pods", used=node.pods),
            _describe_expiry(node.certificate_expires, now),
        )
    return table


def _describe_ready(node: NodeStatus) -> Text:
    text = Text(node.ready, style=_STYLES.get(node.ready, ""))
    if node.cordoned:
        text.append(", cordoned", style="yellow")
    return text


def _describe_amount(node: NodeStatus, resource: str, *, used: int | None = None) -> str:
    """Write what is offered of what there is; of pods how many there are and may be."""
    offered = node.allocatable.get(resource, "-")
    if used is not None:
        return f"{used}/{offered}"
    return "/".join(
        shorten_quantity(text, resource) for text in (offered, node.capacity.get(resource, "-"))
    )


def _describe_largest(node: NodeStatus) -> str:
    if node.largest_free is None:
        return "-"
    free = node.largest_free.get("free") or {}
    return " ".join(
        shorten_quantity(str(free.get(resource, "-")), resource) for resource in ("cpu", "memory")
    )


def _describe_expiry(expires: str | None, now: datetime) -> str:
    at = parse_time(expires)
    if at is None:
        return "-"
    return "expired" if at <= now else format_age(at - now)


def _build_notes(nodes: Iterable[NodeStatus]) -> Iterator[Text]:
    """Tell what the columns don't: why a node isn't ready, and what else it offers."""
    for node in nodes:
        if node.ready != "True" or (node.members and not node.eligible):
            yield Text(f"{node.name}: {node.reason}: {node.message}", style="yellow")
        others = [
            f"{resource} {_describe_amount(node, resource)}"
            for resource, amount in sorted(node.capacity.items())
            if resource not in _SHOWN_APART and amount != "0"
        ]
        if others:
            yield Text(f"{node.name}: {', '.join(others)}")


def _indent(part: RenderableType, width: int = INDENT) -> Padding:
    return Padding(part, (0, 0, 0, width))
