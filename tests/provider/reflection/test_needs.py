import pytest

from provider.reflection.needs import DependentKey, Needs
from vkubelet.interface import PodRef
from vkubelet.kube.objects import NamespacedName

A = DependentKey("ConfigMap", "demo", "a")
B = DependentKey("Secret", "demo", "b")
ONE = PodRef("demo", "one", "uid-1")
TWO = PodRef("demo", "two", "uid-2")


@pytest.fixture
def changes() -> list[DependentKey]:
    return []


@pytest.fixture
def needs(changes: list[DependentKey]) -> Needs:
    return Needs(changes.append)


def test_what_a_coming_pod_needs_is_needed(needs: Needs, changes: list[DependentKey]) -> None:
    needs.expect(ONE, [A, B])
    needs.expect(ONE, [A, B])
    assert sorted(changes) == [A, B]
    assert needs.is_needed(A)
    assert not needs.is_used(A)
    assert needs.has_pod("uid-1")
    assert needs.uses_scope(("Secret", "demo"))
    assert needs.in_scope(("ConfigMap", "demo")) == [A]


def test_a_pod_that_is_there_speaks_for_itself(needs: Needs, changes: list[DependentKey]) -> None:
    needs.expect(ONE, [A, B])
    needs.set_present(ONE, [A])
    assert needs.is_used(A)
    assert not needs.is_needed(B)
    assert changes.count(A) == 1
    needs.drop_present("uid-1")
    assert not needs.has_pod("uid-1")
    assert not needs.is_needed(A)
    assert not needs.uses_scope(("ConfigMap", "demo"))


def test_it_is_needed_as_long_as_anybody_needs_it(
    needs: Needs, changes: list[DependentKey]
) -> None:
    needs.set_present(ONE, [A])
    needs.expect(TWO, [A])
    needs.drop_present("uid-1")
    assert needs.is_needed(A)
    assert changes == [A]
    needs.keep_expected(TWO.key, "")
    assert changes == [A, A]


def test_needs_change(needs: Needs) -> None:
    needs.set_present(ONE, [A])
    needs.set_present(ONE, [B])
    assert (needs.is_needed(A), needs.is_needed(B)) == (False, True)


def test_a_pod_that_is_there_may_come_to_need_more(needs: Needs) -> None:
    needs.extend_present(ONE, [B])
    assert not needs.is_needed(B)
    needs.set_present(ONE, [A])
    needs.extend_present(ONE, [B])
    assert needs.is_used(A)
    assert needs.is_used(B)


def test_of_one_name_only_one_pod_is_expected(needs: Needs) -> None:
    needs.expect(ONE, [A])
    needs.keep_expected(ONE.key, "uid-1")
    assert needs.is_needed(A)
    needs.expect(PodRef("demo", "one", "uid-next"), [B])
    assert (needs.has_pod("uid-1"), needs.is_needed(A)) == (False, False)
    needs.keep_expected(NamespacedName("demo", "other"), "")
    assert needs.is_needed(B)


def test_forgetting_what_is_unknown_does_nothing(needs: Needs) -> None:
    needs.drop_present("uid")
    needs.keep_expected(ONE.key, "")
    assert not needs.has_pod("uid")


def test_they_are_named_in_messages() -> None:
    assert str(A) == "ConfigMap demo/a"
