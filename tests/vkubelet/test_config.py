"""Policy values are checked when they are made."""

import pytest

from vkubelet.config import ALL_NAMESPACES, KubeletPolicy, NamespaceFilter, PortRange


def test_policy_needs_owner_labels() -> None:
    with pytest.raises(ValueError, match="owner_labels is empty"):
        KubeletPolicy(owner_labels={}, address="10.0.0.1")


@pytest.mark.parametrize("address", ["", "node-1", "10.0.0.1:80"])
def test_policy_needs_an_address(address: str) -> None:
    with pytest.raises(ValueError, match="isn't an IP address"):
        KubeletPolicy(owner_labels={"a": "b"}, address=address)


def test_policy_refuses_a_renewal_near_the_end_of_the_lease() -> None:
    with pytest.raises(ValueError, match="at least twice"):
        KubeletPolicy(owner_labels={"a": "b"}, address="::1", lease_renew_seconds=40)


@pytest.mark.parametrize(("first", "last"), [(2, 1), (-1, 5), (1, 65536), (0, 5)])
def test_port_range_refuses(first: int, last: int) -> None:
    with pytest.raises(ValueError, match="aren't a range"):
        PortRange(first=first, last=last)


def test_port_range_contains() -> None:
    ports = PortRange(first=10250, last=10260)
    assert 10250 in ports
    assert 10261 not in ports
    assert 40000 in PortRange()
    assert 0 not in PortRange()
    assert str(ports) == "10250-10260"


@pytest.mark.parametrize(
    ("namespaces", "namespace", "named"),
    [
        (NamespaceFilter(), "a", False),
        (NamespaceFilter(names=frozenset({"a"})), "a", True),
        (NamespaceFilter(names=frozenset({"a"})), "b", False),
        (NamespaceFilter(everything=True), "b", True),
        (NamespaceFilter(everything=True), "kube-system", False),
        (NamespaceFilter(names=frozenset({"kube-public"})), "kube-public", False),
        (ALL_NAMESPACES, "kube-node-lease", True),
    ],
)
def test_namespace_filter(namespaces: NamespaceFilter, namespace: str, *, named: bool) -> None:
    assert namespaces.names_namespace(namespace) is named
