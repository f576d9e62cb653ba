"""What the authority issues is accepted in a real TLS handshake, both ways."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.ca import CertificateAuthority, KeyPair, issue_self_signed
from certs.csr import make_signing_request
from certs.errors import CertificateError
from certs.keys import generate_key
from certs.names import build_subject

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LONG_NAME = "system:node:" + "n" * 253


def context_of(pair: KeyPair, purpose: int, trusted: bytes, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(purpose)
    context.load_verify_locations(cadata=trusted.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    path = folder / f"{purpose}.pem"
    path.write_bytes(pair.certificate_pem + pair.key_pem)
    context.load_cert_chain(path)
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Run a handshake in memory; returns the server's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    client_side = client.wrap_bio(to_client, to_server, server_hostname=host)
    for side in (client_side, server_side) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return server_side


@pytest.mark.parametrize("host", ["127.0.0.1", "kubernetes.default"])
def test_handshake_both_ways(tmp_path: Path, host: str) -> None:
    authority = CertificateAuthority.create("ca")
    server = authority.issue(
        "server", dns_names=["kubernetes.default"], ip_addresses=["127.0.0.1"], server=True
    )
    client = authority.issue(LONG_NAME, organizations=["system:nodes"], client=True)
    pem = authority.certificate_pem
    side = shake_hands(
        context_of(server, ssl.PROTOCOL_TLS_SERVER, pem, tmp_path),
        context_of(client, ssl.PROTOCOL_TLS_CLIENT, pem, tmp_path),
        host,
    )
    peer = side.getpeercert()
    assert peer is not None
    assert peer["subject"] == (
        (("organizationName", "system:nodes"),),
        (("commonName", LONG_NAME),),
    )


def test_server_certificate_is_no_client_certificate(tmp_path: Path) -> None:
    authority = CertificateAuthority.create("ca")
    server = authority.issue("server", ip_addresses=["127.0.0.1"], server=True)
    pem = authority.certificate_pem
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        shake_hands(
            context_of(server, ssl.PROTOCOL_TLS_SERVER, pem, tmp_path),
            context_of(server, ssl.PROTOCOL_TLS_CLIENT, pem, tmp_path),
            "127.0.0.1",
        )


def test_authority_survives_pem() -> None:
    first = CertificateAuthority.create("ca", lifetime=timedelta(days=1), now=NOW)
    second = CertificateAuthority(first.certificate_pem, first.key_pem)
    root = x509.load_pem_x509_certificate(first.certificate_pem)
    leaf = x509.load_pem_x509_certificate(second.issue("x", client=True).certificate_pem)
    leaf.verify_directly_issued_by(root)
    assert root.not_valid_before_utc == NOW - timedelta(minutes=5)
    assert root.not_valid_after_utc == NOW + timedelta(days=1)


def test_serving_request_is_certified_as_it_is() -> None:
    authority = CertificateAuthority.create("ca")
    request = make_signing_request("n" * 253, ["10.0.0.1", "fd00::1", "n.example.com"])
    pem = authority.sign_serving_request(request.request_pem, lifetime=timedelta(hours=1), now=NOW)
    leaf = x509.load_pem_x509_certificate(pem)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert leaf.subject.rfc4514_string() == f"CN={LONG_NAME},O=system:nodes"
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert names.get_values_for_type(x509.DNSName) == ["n.example.com"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_address("fd00::1"),
    ]
    assert leaf.not_valid_after_utc == NOW + timedelta(hours=1)


def test_bad_requests_are_refused() -> None:
    authority = CertificateAuthority.create("ca")
    builder = x509.CertificateSigningRequestBuilder().subject_name(build_subject("x"))
    algorithm = hashes.SHA256()
    nameless = builder.sign(generate_key(), algorithm).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(CertificateError, match="names no address"):
        authority.sign_serving_request(nameless, lifetime=timedelta(days=1))
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    other = builder.sign(rsa_key, algorithm).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(CertificateError, match="isn't signed by an ECDSA key"):
        authority.sign_serving_request(other, lifetime=timedelta(days=1))


def test_self_signed(tmp_path: Path) -> None:
    pair = issue_self_signed("a", ["127.0.0.1"], lifetime=timedelta(days=365), now=NOW)
    leaf = x509.load_pem_x509_certificate(pair.certificate_pem)
    leaf.verify_directly_issued_by(leaf)
    assert leaf.subject.rfc4514_string() == "CN=system:node:a,O=system:nodes"
    path = tmp_path / "pair.pem"
    path.write_bytes(pair.certificate_pem + pair.key_pem)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
