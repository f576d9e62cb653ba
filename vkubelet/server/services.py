"""What all endpoints of a node's port share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from vkubelet.interface import Provider
from vkubelet.server.authentication import Authenticator
from vkubelet.server.authorization import Authorizer
from vkubelet.server.cpu_rates import CpuRates
from vkubelet.server.interruption import OpenStreams
from vkubelet.server.lookup import PodLookup
from vkubelet.server.policy import ServerPolicy
from vkubelet.server.strangers import Strangers


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletServices:
    """
    What the ports of all virtual nodes use in common.

    Attributes:
        provider: Its streams and `stats` are called.
        pods: The home pods on our nodes.
        authenticator: Finds out who calls.
        authorizer: Decides what callers may do.
        policy: Limits and time-outs.
        strangers: Connections of callers without a right so far, within the policy's limits.
        capacity: Gives the capacity of a node, quantities by resource.
    """

    provider: Provider
    pods: PodLookup
    authenticator: Authenticator
    authorizer: Authorizer
    policy: ServerPolicy = field(default_factory=ServerPolicy)
    strangers: Strangers = field(init=False)
    capacity: Callable[[str], Mapping[str, str]] = lambda _node: {}

    def __post_init__(self) -> None:
        strangers = Strangers(
            max_strangers=self.policy.max_strangers, max_bytes=self.policy.max_stranger_bytes
        )
        object.__setattr__(self, "strangers", strangers)  # frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """
    One node's port, as its endpoints see it.

    Attributes:
        node_name: The virtual node.
        services: What all nodes share.
        streams: Long requests that are open on this port.
        cpu_rates: What was seen when the summary was asked for last.
    """

    node_name: str
    services: KubeletServices
    streams: OpenStreams = field(default_factory=OpenStreams)
    cpu_rates: CpuRates = field(default_factory=CpuRates)


NODE_CONTEXT = web.AppKey("node_context", NodeContext)
"""Where an application keeps its node."""
