import ssl

import pytest
from cryptography.hazmat.primitives import serialization

from tests.vkubelet.kube.certificates import Authority
from vkubelet.kube.errors import AccessError
from vkubelet.kube.tls import TlsSettings, build_ssl_context


def test_only_the_given_authority_is_trusted() -> None:
    context = build_ssl_context(TlsSettings(ca=Authority().pem))
    assert context.cert_store_stats()["x509"] == 1
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


def test_without_verification() -> None:
    context = build_ssl_context(TlsSettings(insecure=True))
    assert context.verify_mode is ssl.CERT_NONE


def test_client_certificate() -> None:
    issued = Authority().issue("me")
    build_ssl_context(TlsSettings(certificate=issued.certificate, key=issued.key))


@pytest.mark.parametrize("ca", [b"", b"nonsense", b"\xff", b"-----BEGIN CERTIFICATE-----\nAA\n"])
def test_authorities_that_are_none(ca: bytes) -> None:
    with pytest.raises(AccessError, match="certificate authority isn't usable PEM"):
        build_ssl_context(TlsSettings(ca=ca))


def test_pairs_that_do_not_fit() -> None:
    authority = Authority()
    one, other = authority.issue("one"), authority.issue("other")
    key = serialization.load_pem_private_key(one.key, None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    for certificate, private in (
        (one.certificate, other.key),
        (b"nonsense", one.key),
        (one.certificate, b"nonsense"),
        (one.certificate, encrypted),
    ):
        with pytest.raises(AccessError, match="certificate and its key can't be used"):
            build_ssl_context(TlsSettings(certificate=certificate, key=private))


def test_key_is_not_shown() -> None:
    assert "s3cret" not in repr(TlsSettings(certificate=b"c", key=b"s3cret"))
