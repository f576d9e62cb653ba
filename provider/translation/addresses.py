"""Addresses of remote pods as home sees them: not at all, as they are, or renumbered."""

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from vkubelet.kube.objects import KubeObject

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class CidrRemap:
    """
    A network of pods in the remote cluster, and the one that it's routed as at home.

    Attributes:
        source: There.
        target: Here; as large.
    """

    source: Network
    target: Network

    def __str__(self) -> str:
        return f"{self.source}={self.target}"


def parse_cidr_remap(text: str) -> CidrRemap:
    """
    Parse FROM=TO.

    Raises:
        ValueError: If that isn't two networks of one size and family.
    """
    source, equals, target = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not FROM=TO (such as 10.244.0.0/16=10.90.0.0/16)")
    try:
        remap = CidrRemap(ipaddress.ip_network(source), ipaddress.ip_network(target))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from error
    if remap.source.version != remap.target.version:
        raise ValueError(f"{text!r} mixes IPv4 and IPv6")
    if remap.source.prefixlen != remap.target.prefixlen:
        raise ValueError(f"{text!r}: the networks differ in size")
    return remap


def find_overlap(remaps: Sequence[CidrRemap]) -> tuple[CidrRemap, CidrRemap] | None:
    """
    Find two remaps that contradict each other.

    Where their sources overlap, an address has two new ones; where their targets do, two pods could
    get the same.
    """
    for number, one in enumerate(remaps):
        for other in remaps[:number]:
            if _overlap(one.source, other.source) or _overlap(one.target, other.target):
                return other, one
    return None


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def remap_address(address: str, remaps: Sequence[CidrRemap]) -> str:
    """Renumber an address; one that no remap is about, or that is none, stays."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    for remap in remaps:
        if parsed in remap.source:
            offset = int(parsed) - int(remap.source.network_address)
            return str(remap.target.network_address + offset)
    return address


def translate_pod_ips(
    status: KubeObject, remaps: Sequence[CidrRemap]
) -> Iterator[tuple[str, object]]:
    """Yield `podIP` and `podIPs` of a remote pod's status as home sees them."""
    if status.get("podIP"):
        yield "podIP", remap_address(status["podIP"], remaps)
    if status.get("podIPs"):
        yield (
            "podIPs",
            [
                {**item, "ip": remap_address(item.get("ip", ""), remaps)}
                for item in status["podIPs"]
            ],
        )
