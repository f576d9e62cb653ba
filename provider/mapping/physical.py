"""Physical nodes: the nodes of the remote cluster, decoded to what is decided on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

from provider.taints import NodeTaint
from vkubelet.interface import NodeCondition
from vkubelet.kube.objects import KubeObject, ObjectMeta
from vkubelet.kube.quantity import parse_quantity

READY = "Ready"

_parse = lru_cache(maxsize=1024)(parse_quantity)  # nodes come in few sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalNode:
    """
    A node of the remote cluster; a value, as a Store can keep it.

    Attributes:
        metadata: Its metadata.
        taints: Its taints, lifecycle ones too.
        unschedulable: Whether it's cordoned.
        conditions: Its conditions by type.
        capacity: Amounts by resource name.
        allocatable: As capacity.
        node_info: The texts of status.nodeInfo.
        declared_features: status.declaredFeatures.
    """

    metadata: ObjectMeta
    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False
    conditions: Mapping[str, NodeCondition] = field(default_factory=dict)
    capacity: Mapping[str, Decimal] = field(default_factory=dict)
    allocatable: Mapping[str, Decimal] = field(default_factory=dict)
    node_info: Mapping[str, str] = field(default_factory=dict)
    declared_features: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the Node."""
        return self.metadata.name

    @property
    def uid(self) -> str:
        """UID of the Node."""
        return self.metadata.uid

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.metadata.labels

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet says that it is ready."""
        condition = self.conditions.get(READY)
        return condition is not None and condition.status == "True"


class _Taint(msgspec.Struct, frozen=True):
    key: str
    effect: str
    value: str = ""


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Spec(msgspec.Struct, frozen=True):
    taints: tuple[_Taint, ...] = ()
    unschedulable: bool = False


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[_Condition, ...] = ()
    node_info: dict[str, Any] = {}
    declared_features: tuple[str, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decoder = msgspec.json.Decoder(_Node)


def decode_physical_node(raw: bytes) -> PhysicalNode:
    """Decode a Node's JSON; the decoder of an Informer."""
    return _build(_decoder.decode(raw))


def build_physical_node(node: KubeObject) -> PhysicalNode:
    """Make the value of a raw Node."""
    return _build(msgspec.convert(node, _Node))


def _build(node: _Node) -> PhysicalNode:
    status = node.status
    return PhysicalNode(
        metadata=node.metadata,
        taints=tuple(NodeTaint(taint.key, taint.value, taint.effect) for taint in node.spec.taints),
        unschedulable=node.spec.unschedulable,
        conditions={
            item.type: NodeCondition(
                type=item.type, status=item.status, reason=item.reason, message=item.message
            )
            for item in status.conditions
        },
        capacity={name: _parse(text) for name, text in status.capacity.items()},
        allocatable={name: _parse(text) for name, text in status.allocatable.items()},
        node_info={key: value for key, value in status.node_info.items() if isinstance(value, str)},
        declared_features=status.declared_features,
    )
