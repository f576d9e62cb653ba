"""The parts of the configuration that commands take that look at a peering from outside."""

from typing import Annotated

from pydantic import AfterValidator, Field

from provider.checks import check_dns_label
from provider.config import HomeConfig
from provider.flags import Flag, Section


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
