"""Which port each node's kubelet API gets."""

from collections.abc import Collection, Iterator

from vkubelet.config import PortRange
from vkubelet.errors import VkubeletError


class NoFreePortError(VkubeletError):
    """
    A node finds no free port in the range.

    Attributes:
        setting: What the range is called where the user sets it.
        ports: The range.
    """

    def __init__(self, setting: str, ports: PortRange) -> None:
        super().__init__(setting, ports)
        self.setting = setting
        self.ports = ports

    def __str__(self) -> str:
        return f"no port is free in {self.setting} {self.ports}: each virtual node needs one"


def choose_ports(ports: PortRange, known: int, reserved: Collection[int]) -> Iterator[int]:
    """
    Yield ports to try: the one that the node already has, then the lowest free ones; 0 is any.

    Args:
        ports: The range.
        known: What the node's Node has, 0 if nothing.
        reserved: Ports of other nodes.
    """
    if known in ports and known not in reserved:
        yield known
    if not ports.first:
        yield 0
        return
    for port in range(ports.first, ports.last + 1):
        if port != known and port not in reserved:
            yield port
