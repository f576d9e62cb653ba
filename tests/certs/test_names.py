"""Subjects and alternative names."""

import ipaddress
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from certs.ca import issue_self_signed
from certs.names import build_alternative_names, build_subject, find_uncovered


@pytest.mark.parametrize("node", ["a", "gpu.pool-1.example.com"])
def test_subject_of_a_kubelet(node: str) -> None:
    subject = build_subject(f"system:node:{node}", ["system:nodes"])
    assert subject.rfc4514_string() == f"CN=system:node:{node},O=system:nodes"


def test_common_name_above_64_characters() -> None:
    name = "system:node:" + "n" * 253
    (attribute,) = build_subject(name).get_attributes_for_oid(NameOID.COMMON_NAME)
    assert attribute.value == name


def test_addresses_of_all_kinds() -> None:
    names = list(build_alternative_names(["10.0.0.1", "fd00::1", "node.example.com"]))
    assert names == [
        x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("fd00::1")),
        x509.DNSName("node.example.com"),
    ]


@pytest.mark.parametrize(
    ("addresses", "uncovered"),
    [
        ([], []),
        (["10.0.0.1"], []),
        (["10.0.0.1", "10.0.0.2", "b"], ["10.0.0.2", "b"]),
        (["fd00:0::1"], []),
    ],
)
def test_uncovered(addresses: list[str], uncovered: list[str]) -> None:
    pair = issue_self_signed("n", ["10.0.0.1", "fd00::1"], lifetime=timedelta(days=1))
    certificate = x509.load_pem_x509_certificate(pair.certificate_pem)
    assert find_uncovered(certificate, addresses) == uncovered


def test_certificate_without_addresses_covers_none() -> None:
    pair = issue_self_signed("n", [], lifetime=timedelta(days=1))
    certificate = x509.load_pem_x509_certificate(pair.certificate_pem)
    assert find_uncovered(certificate, ["10.0.0.1"]) == ["10.0.0.1"]
