import pytest

from vkubelet.server.strangers import Stranger, Strangers


class Door:
    """Where strangers come from; keeps whom it had to send away."""

    def __init__(self, strangers: Strangers) -> None:
        self.cut_off: list[str] = []
        self._strangers = strangers

    def let_in(self, name: str, port: str = "a") -> Stranger:
        stranger = Stranger(port=port, cut_off=lambda: self.cut_off.append(name))
        self._strangers.add(stranger)
        return stranger


@pytest.fixture
def strangers() -> Strangers:
    return Strangers(max_strangers=4, max_bytes=100)


@pytest.fixture
def door(strangers: Strangers) -> Door:
    return Door(strangers)


def test_the_oldest_yields(door: Door) -> None:
    for number in range(6):
        door.let_in(f"{number}")
    assert door.cut_off == ["0", "1"]


def test_a_crowd_at_one_port_is_no_matter_of_the_others(door: Door) -> None:
    door.let_in("first", port="b")
    for number in range(5):
        door.let_in(f"{number}", port="a")
    door.let_in("last", port="c")
    assert door.cut_off == ["0", "1", "2"]


def test_who_left_takes_no_room(strangers: Strangers, door: Door) -> None:
    left = [door.let_in(f"{number}") for number in range(4)]
    for stranger in (*left, *left):
        strangers.remove(stranger)
    for number in range(4, 8):
        door.let_in(f"{number}")
    assert door.cut_off == []


def test_who_holds_most_yields(strangers: Strangers, door: Door) -> None:
    large, small, new = door.let_in("large"), door.let_in("small"), door.let_in("new", port="b")
    assert strangers.hold(large, 60)
    assert strangers.hold(small, 40)
    assert strangers.hold(new, 1)
    assert door.cut_off == ["large"]
    assert not strangers.hold(large, 1)
    assert not strangers.hold(small, 60)
    assert door.cut_off == ["large", "small"]


def test_what_those_who_left_held_is_free(strangers: Strangers, door: Door) -> None:
    for number in range(10):
        stranger = door.let_in(f"{number}")
        assert strangers.hold(stranger, 100)
        strangers.remove(stranger)
    assert door.cut_off == []
