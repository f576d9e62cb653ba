"""Addresses of remote pods, renumbered."""

import ipaddress

import pytest
from hypothesis import given, strategies as st

from provider.translation.addresses import (
    find_overlap,
    parse_cidr_remap,
    remap_address,
    translate_pod_ips,
)

FOUR = parse_cidr_remap("10.244.0.0/16=10.90.0.0/16")
SIX = parse_cidr_remap("fd00:1::/64=fd00:2::/64")


@pytest.mark.parametrize(
    ("address", "seen"),
    [
        ("10.244.3.7", "10.90.3.7"),
        ("10.244.255.255", "10.90.255.255"),
        ("10.245.0.1", "10.245.0.1"),
        ("fd00:1::5", "fd00:2::5"),
        ("fd00:3::5", "fd00:3::5"),
        ("nonsense", "nonsense"),
        ("", ""),
    ],
)
def test_addresses_keep_their_place_in_the_network(address: str, seen: str) -> None:
    assert remap_address(address, [FOUR, SIX]) == seen


@given(st.ip_addresses(network="10.244.0.0/16"))
def test_two_addresses_stay_two(address: ipaddress.IPv4Address) -> None:
    back = parse_cidr_remap("10.90.0.0/16=10.244.0.0/16")
    assert remap_address(remap_address(str(address), [FOUR]), [back]) == str(address)


def test_status_is_renumbered_in_both_families() -> None:
    status = {
        "podIP": "10.244.0.1",
        "podIPs": [{"ip": "10.244.0.1"}, {"ip": "fd00:1::1", "future": True}],
    }
    assert dict(translate_pod_ips(status, [FOUR, SIX])) == {
        "podIP": "10.90.0.1",
        "podIPs": [{"ip": "10.90.0.1"}, {"ip": "fd00:2::1", "future": True}],
    }
    assert dict(translate_pod_ips({"podIP": "", "podIPs": []}, [FOUR])) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.0.0.0/8", "is not FROM=TO"),
        ("10.0.0.0/8=", "Address cannot be empty|does not appear|Expected"),
        ("10.0.0.1/8=11.0.0.0/8", "has host bits set"),
        ("x=y", "does not appear to be"),
        ("10.0.0.0/8=fd00::/8", "mixes IPv4 and IPv6"),
        ("10.0.0.0/8=11.0.0.0/16", "differ in size"),
    ],
)
def test_what_is_no_remap(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_cidr_remap(text)
    assert repr(text) in str(caught.value)


def test_overlaps_are_found() -> None:
    within = parse_cidr_remap("10.244.9.0/24=10.91.0.0/24")
    assert find_overlap([FOUR, SIX]) is None
    assert find_overlap([FOUR, SIX, within]) == (FOUR, within)


def test_two_networks_cannot_become_one() -> None:
    same = parse_cidr_remap("10.245.0.0/16=10.90.0.0/16")
    other = parse_cidr_remap("fd00:9::/64=fd00:2::/64")
    assert find_overlap([FOUR, same]) == (FOUR, same)
    assert find_overlap([FOUR, SIX, other]) == (SIX, other)
