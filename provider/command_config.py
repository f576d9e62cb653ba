"""The parts of the configuration that commands take that look at a peering from outside."""

from typing import Annotated

from pydantic import AfterValidator, Field

from provider.checks import check_dns_label, check_ip_address
from provider.config import HomeConfig, NamespaceConfig, PodConfig, RemoteConfig, ServingConfig
from provider.flags import Flag, Section
from provider.node_config import CapacityConfig, NodeConfig


class AnyPeeringConfig(Section):
    """The remote cluster."""

    cluster: Annotated[
        Annotated[str, AfterValidator(check_dns_label)] | None, Flag("--remote-cluster", "NAME")
    ] = None
    """Name of the remote cluster: just this peering (default: all)."""


class StatusConfig(Section):
    """The part of the configuration that `vkubelet status` takes."""

    home: HomeConfig = Field(default_factory=HomeConfig)
    remote: AnyPeeringConfig = Field(default_factory=AnyPeeringConfig)


class CheckedServingConfig(ServingConfig):
    """The kubelet API and its certificates."""

    address: Annotated[
        Annotated[str, AfterValidator(check_ip_address)] | None, Flag("--kubelet-address", "IP")
    ] = None
    """Address published as InternalIP (default: $POD_IP, else what needs it isn't checked)."""


class CheckConfig(Section):
    """The part of the configuration that `vkubelet check` takes."""

    home: HomeConfig = Field(default_factory=HomeConfig)
    remote: RemoteConfig
    namespaces: NamespaceConfig
    nodes: NodeConfig = Field(default_factory=NodeConfig)
    capacity: CapacityConfig = Field(default_factory=CapacityConfig)
    pods: PodConfig = Field(default_factory=PodConfig)
    kubelet: CheckedServingConfig = Field(default_factory=CheckedServingConfig)
