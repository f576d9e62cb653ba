"""A node mapping for vkubelet: a virtual node for each zone and instance type, with caps."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal

from provider.labels import make_hash
from provider.mapping.groups import NodeGroup
from provider.mapping.naming import fit_name
from provider.mapping.physical import PhysicalNode
from provider.translation.selection import Selection
from vkubelet.kube.selector import Operator, Requirement

ZONE = "topology.kubernetes.io/zone"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


class ZoneInstanceMapping:
    """
    A group a pair of zone and instance type.

    Of each group one node's worth stays with its owner: what is offered is capped at the sum
    without the largest member.
    """

    def group_nodes(self, nodes: Sequence[PhysicalNode]) -> Sequence[NodeGroup]:
        """Put nodes of the same zone and instance type together."""
        by_pair: defaultdict[tuple[str, str], list[PhysicalNode]] = defaultdict(list)
        for node in nodes:
            pair = (node.labels.get(ZONE, ""), node.labels.get(INSTANCE_TYPE, ""))
            if all(pair):
                by_pair[pair].append(node)
        names: set[str] = set()
        groups: list[NodeGroup] = []
        for (zone, instance_type), members in sorted(by_pair.items()):
            key = f"{zone}/{instance_type}"
            name = fit_name(f"{zone}-{instance_type}")
            if name in names:  # two pairs may look alike once they are made valid
                name = fit_name(f"{name}-{make_hash(key)}")
            names.add(name)
            groups.append(
                NodeGroup(
                    key=key,
                    name=name,
                    members=tuple(members),
                    selection=Selection.of_requirements(
                        [
                            Requirement(ZONE, Operator.IN, (zone,)),
                            Requirement(INSTANCE_TYPE, Operator.IN, (instance_type,)),
                        ]
                    ),
                    caps=find_caps(members),
                )
            )
        return groups

    def reason_left_out(self, node: PhysicalNode) -> str:
        """Why no group has the node."""
        missing = next(key for key in (ZONE, INSTANCE_TYPE) if not node.labels.get(key))
        return f"no label {missing}"


def find_caps(members: Sequence[PhysicalNode]) -> Mapping[str, Decimal]:
    """Sum up what the members have, without the largest of each resource."""
    caps: dict[str, Decimal] = {}
    for resource in {name for node in members for name in node.allocatable}:
        amounts = [node.allocatable.get(resource, Decimal(0)) for node in members]
        caps[resource] = sum(amounts, Decimal(0)) - max(amounts)
    return caps
