"""Which ports are tried for a node."""

import pytest

from vkubelet.config import PortRange
from vkubelet.ports import NoFreePortError, choose_ports

RANGE = PortRange(first=10250, last=10253)
ANY = PortRange()


@pytest.mark.parametrize(
    ("ports", "known", "reserved", "tried"),
    [
        (RANGE, 0, set(), [10250, 10251, 10252, 10253]),
        (RANGE, 10252, set(), [10252, 10250, 10251, 10253]),
        (RANGE, 10252, {10252}, [10250, 10251, 10253]),
        (RANGE, 9999, {10250}, [10251, 10252, 10253]),
        (RANGE, 0, {10250, 10251, 10252, 10253}, []),
        (ANY, 0, {1}, [0]),
        (ANY, 40000, set(), [40000, 0]),
        (ANY, 40000, {40000}, [0]),
    ],
)
def test_choose_ports(ports: PortRange, known: int, reserved: set[int], tried: list[int]) -> None:
    assert list(choose_ports(ports, known, reserved)) == tried


def test_error_names_the_setting() -> None:
    error = NoFreePortError("--kubelet-ports", RANGE)
    assert "--kubelet-ports 10250-10253" in str(error)
