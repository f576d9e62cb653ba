"""What is stored is used again only if it's good."""

import logging
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.ca import CertificateAuthority, KeyPair, issue_self_signed
from certs.csr import make_signing_request
from certs.errors import CertificateError, NotIssuedError
from certs.keys import generate_key, serialize_key
from certs.store import CertificateStore, check_pair

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ADDRESSES = ["10.0.0.1"]
SIGNER = "kubernetes.io/kubelet-serving"


@pytest.fixture
def store(tmp_path: Path) -> CertificateStore:
    return CertificateStore(tmp_path)


def issue(authority: CertificateAuthority) -> KeyPair:
    return authority.issue(
        "system:node:a", ip_addresses=ADDRESSES, server=True, lifetime=DAY, now=NOW
    )


@pytest.fixture
def pair() -> KeyPair:
    return issue(CertificateAuthority.create("ca", now=NOW))


def test_issued_is_found_again(store: CertificateStore, pair: KeyPair, tmp_path: Path) -> None:
    assert store.load_issued("a", ADDRESSES, SIGNER, NOW) is None
    saved = store.save_issued("a", ADDRESSES, SIGNER, pair, NOW)
    assert store.load_issued("a", ADDRESSES, SIGNER, NOW) == saved
    assert saved.not_after == NOW + DAY
    assert not saved.self_signed
    assert saved.key_file.is_relative_to(tmp_path)
    assert stat.S_IMODE(saved.key_file.stat().st_mode) == 0o600
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(saved.certificate_file, saved.key_file)


@pytest.mark.parametrize(
    ("wanted", "logged"),
    [
        ((["10.0.0.1", "10.0.0.2"], SIGNER, NOW), "isn't made out to 10.0.0.2"),
        ((ADDRESSES, "example.com/other", NOW), "comes from another signer"),
        ((ADDRESSES, SIGNER, NOW + DAY), "expired at 2026-05-02"),
    ],
)
def test_issued_that_does_not_fit(
    store: CertificateStore,
    pair: KeyPair,
    wanted: tuple[list[str], str, datetime],
    logged: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store.save_issued("a", ADDRESSES, SIGNER, pair, NOW)
    with caplog.at_level(logging.INFO):
        assert store.load_issued("a", *wanted) is None
    assert logged in caplog.text


def test_clock_behind_the_signer_is_no_problem(store: CertificateStore, pair: KeyPair) -> None:
    early = NOW - DAY
    store.save_issued("a", ADDRESSES, SIGNER, pair, early)
    assert store.load_issued("a", ADDRESSES, SIGNER, early) is not None


@pytest.mark.parametrize(
    "content", [b"", b"Signer: x\n", b"\xff\x00", b"-----BEGIN CERTIFICATE-----"]
)
def test_broken_file_is_passed_over(
    store: CertificateStore, pair: KeyPair, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    saved = store.save_issued("a", ADDRESSES, SIGNER, pair, NOW)
    saved.certificate_file.write_bytes(content)
    assert store.load_issued("a", ADDRESSES, SIGNER, NOW) is None
    assert str(saved.certificate_file) in caplog.text


def test_key_of_another_certificate_is_passed_over(
    store: CertificateStore, pair: KeyPair, caplog: pytest.LogCaptureFixture
) -> None:
    saved = store.save_issued("a", ADDRESSES, SIGNER, pair, NOW)
    text = saved.certificate_file.read_bytes()
    saved.certificate_file.write_bytes(text.replace(pair.key_pem, serialize_key(generate_key())))
    assert store.load_issued("a", ADDRESSES, SIGNER, NOW) is None
    assert "not the certificate's key" in caplog.text


def test_useless_answers_of_a_signer(store: CertificateStore, pair: KeyPair) -> None:
    good = store.save_issued("a", ADDRESSES, SIGNER, pair, NOW)
    other_key = KeyPair(certificate_pem=pair.certificate_pem, key_pem=serialize_key(generate_key()))
    no_certificate = KeyPair(certificate_pem=b"sorry", key_pem=pair.key_pem)
    for bad, addresses, now, problem in (
        (other_key, ADDRESSES, NOW, "for another key"),
        (no_certificate, ADDRESSES, NOW, "what isn't a certificate"),
        (pair, ["10.0.0.9"], NOW, "isn't made out to 10.0.0.9"),
        (pair, ADDRESSES, NOW + DAY, "expired at"),
    ):
        with pytest.raises(NotIssuedError, match=problem):
            store.save_issued("a", addresses, SIGNER, bad, now)
    assert store.load_issued("a", ADDRESSES, SIGNER, NOW) == good


def test_self_signed_is_kept_apart(store: CertificateStore, pair: KeyPair) -> None:
    own = issue_self_signed("a", ADDRESSES, lifetime=DAY, now=NOW)
    saved = store.save_self_signed("a", own)
    issued = store.save_issued("a", ADDRESSES, SIGNER, pair, NOW)
    assert saved.self_signed
    assert store.load_self_signed("a", ADDRESSES, NOW) == saved
    assert store.load_issued("a", ADDRESSES, SIGNER, NOW) == issued
    assert store.load_self_signed("a", ADDRESSES, NOW + DAY) is None


def test_request_survives_a_restart(store: CertificateStore) -> None:
    request = make_signing_request("a", ADDRESSES)
    store.save_request("a", request)
    assert store.load_request("a", ADDRESSES) == request
    assert store.load_request("a", ["10.0.0.2"]) is None
    assert store.load_request("b", ADDRESSES) is None
    store.forget_request("a")
    assert store.load_request("a", ADDRESSES) is None


@pytest.mark.parametrize("content", [b"", b"x", serialize_key(generate_key())])
def test_broken_request_is_passed_over(
    store: CertificateStore, tmp_path: Path, content: bytes
) -> None:
    store.save_request("a", make_signing_request("a", ADDRESSES))
    (tmp_path / "requests" / "a.pem").write_bytes(content)
    assert store.load_request("a", ADDRESSES) is None


def test_request_with_another_key_is_passed_over(store: CertificateStore, tmp_path: Path) -> None:
    request = make_signing_request("a", ADDRESSES)
    store.save_request("a", request)
    other = request.request_pem + serialize_key(generate_key())
    (tmp_path / "requests" / "a.pem").write_bytes(other)
    assert store.load_request("a", ADDRESSES) is None


def test_forget_removes_all(store: CertificateStore, pair: KeyPair, tmp_path: Path) -> None:
    store.save_issued("a", ADDRESSES, SIGNER, pair, NOW)
    store.save_self_signed("a", issue_self_signed("a", ADDRESSES, lifetime=DAY))
    store.save_request("a", make_signing_request("a", ADDRESSES))
    store.save_issued("b", ADDRESSES, SIGNER, pair, NOW)
    store.forget("a")
    store.forget("a")
    assert [path.name for path in tmp_path.rglob("*.pem")] == ["b.pem"]


def test_check_pair_of_two_files(tmp_path: Path, pair: KeyPair) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    with pytest.raises(CertificateError, match=r"tls\.crt: can't be read: No such file"):
        check_pair(certificate, key)
    certificate.write_bytes(pair.certificate_pem)
    with pytest.raises(CertificateError, match=r"tls\.key: can't be read: No such file"):
        check_pair(certificate, key)
    key.write_bytes(serialize_key(generate_key()))
    with pytest.raises(CertificateError, match=r"tls\.key: not the certificate's key: key values"):
        check_pair(certificate, key)
    key.write_bytes(pair.key_pem)
    assert check_pair(certificate, key).not_valid_after_utc == NOW + DAY
