"""The virtual nodes that there will be: their names, ports, and what stands behind them."""

from collections.abc import Iterator

from provider.checkup.finding import Finding, failure, ok, warning
from provider.checkup.surroundings import PlannedNodes, Surroundings
from vkubelet.kube.objects import KubeObject

_SHOWN = 5


async def check_virtual_nodes(around: Surroundings) -> list[Finding]:
    """Check that they can be registered: names free, a port for each, somebody behind."""
    planned = await around.planned()
    peering = await around.peering()
    foreign = {
        node["metadata"]["name"]: node
        for node in await around.home_nodes()
        if not peering.owns_labels(node["metadata"].get("labels") or {})
    }
    ports = around.config.kubelet.ports
    findings = [
        *_judge_names(planned, foreign),
        *_judge_ports(len(planned.nodes), ports.last - ports.first + 1, str(ports)),
        *(warning(text) for text in planned.mapped.warnings),
    ]
    if not planned.nodes:
        findings.append(warning("no virtual node would be made", *_explain(planned)))
    return findings or [ok(_describe(planned))]


def _describe(planned: PlannedNodes) -> str:
    members = sum(len(group.members) for group in planned.mapped.groups)
    shown = sorted(planned.nodes)
    names = ", ".join(shown[:_SHOWN]) + (" …" if len(shown) > _SHOWN else "")
    left = len(planned.mapped.left_out)
    rest = f"; {left} are left out (vkubelet plan tells why)" if left else ""
    return f"{len(shown)} over {members} physical nodes: {names}{rest}"


def _explain(planned: PlannedNodes) -> Iterator[str]:
    for item in planned.mapped.left_out[:1]:
        yield f"{item.node} is left out: {item.reason}; vkubelet plan tells of all"


def _judge_names(planned: PlannedNodes, foreign: dict[str, KubeObject]) -> Iterator[Finding]:
    for name in sorted(planned.nodes.keys() & foreign.keys()):
        yield failure(
            f"home has a Node {name} that isn't ours: it's never touched",
            "choose other names: --node-name, --node-name-prefix",
        )


def _judge_ports(nodes: int, ports: int, shown: str) -> Iterator[Finding]:
    if nodes > ports:
        yield failure(
            f"{nodes} virtual nodes need a port each, and --kubelet-ports {shown} are {ports}",
            "give a larger range, or split less",
        )
    elif nodes == ports:
        yield warning(
            f"the virtual nodes take all of --kubelet-ports {shown}: another one wouldn't start"
        )
