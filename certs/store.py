"""Serving certificates on the disk: written as a whole, checked before use."""

import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from certs.ca import KeyPair
from certs.csr import SigningRequest, parse_signing_request
from certs.errors import CertificateError, NotIssuedError
from certs.keys import KEY_HEADER, build_file_stem, parse_key, write_private_file
from certs.names import find_uncovered

logger = logging.getLogger(__name__)

_SIGNER_LINE: Final = "Signer: "
"""Text before the first block, which RFC 7468 section 5.2 allows, says who signed."""

_SELF_SIGNED: Final = "self-signed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCertificate:
    """
    A certificate with its key: PEM files that `ssl.SSLContext.load_cert_chain` takes.

    Attributes:
        certificate_file: File of the chain, leaf first.
        key_file: File of the key; may be the same file.
        not_before: When it becomes valid.
        not_after: When it expires.
        self_signed: Whether only clients that don't verify accept it.
    """

    certificate_file: Path
    key_file: Path
    not_before: datetime
    not_after: datetime
    self_signed: bool


class CertificateStore:
    """
    Keys, certificates and pending requests of virtual nodes in a folder; all methods block.

    Key and chain are in one file, so no crash leaves a pair that doesn't match.
    """

    def __init__(self, data_dir: Path) -> None:
        self._issued = data_dir / "issued"
        self._self_signed = data_dir / _SELF_SIGNED
        self._requests = data_dir / "requests"

    def save_issued(
        self,
        node_name: str,
        addresses: Sequence[str],
        signer_name: str,
        pair: KeyPair,
        now: datetime,
    ) -> ServingCertificate:
        """
        Keep what a signer issued; replaces the one before.

        Raises:
            NotIssuedError: If it can't be used; the one before stays.
            CertificateError: If it can't be written.
        """
        try:
            leaf = x509.load_pem_x509_certificates(pair.certificate_pem)[0]
        except ValueError as error:
            raise NotIssuedError(f"{signer_name} issued what isn't a certificate") from error
        if leaf.public_key() != parse_key(pair.key_pem).public_key():
            raise NotIssuedError(f"{signer_name} issued a certificate for another key")
        if problem := _find_problem(leaf, addresses, now):
            raise NotIssuedError(f"{signer_name} issued a certificate that {problem}")
        path = self._issued / _build_file_name(node_name)
        _write_pair(path, signer_name, pair)
        return describe_pair(leaf, path, path, self_signed=False)

    def load_issued(
        self, node_name: str, addresses: Sequence[str], signer_name: str, now: datetime
    ) -> ServingCertificate | None:
        """Return what that signer issued, None if there is nothing that can be used (any more)."""
        return _load_pair(self._issued / _build_file_name(node_name), addresses, signer_name, now)

    def save_self_signed(self, node_name: str, pair: KeyPair) -> ServingCertificate:
        """
        Keep a self-signed certificate; replaces the one before.

        Raises:
            CertificateError: If it can't be written.
        """
        path = self._self_signed / _build_file_name(node_name)
        _write_pair(path, _SELF_SIGNED, pair)
        leaf = x509.load_pem_x509_certificate(pair.certificate_pem)
        return describe_pair(leaf, path, path, self_signed=True)

    def load_self_signed(
        self, node_name: str, addresses: Sequence[str], now: datetime
    ) -> ServingCertificate | None:
        """Return the self-signed certificate, None if there is none that can be used (any more)."""
        return _load_pair(
            self._self_signed / _build_file_name(node_name), addresses, _SELF_SIGNED, now
        )

    def save_request(self, node_name: str, request: SigningRequest) -> None:
        """
        Keep a request that is about to be sent, so that a restart goes on waiting for it.

        Raises:
            CertificateError: If it can't be written.
        """
        path = self._requests / _build_file_name(node_name)
        write_private_file(path, request.request_pem + request.key_pem)

    def load_request(self, node_name: str, addresses: Sequence[str]) -> SigningRequest | None:
        """Return the pending request, None if there is none for these addresses."""
        path = self._requests / _build_file_name(node_name)
        try:
            request_pem, header, key = path.read_bytes().partition(KEY_HEADER)
            return parse_signing_request(request_pem, header + key, node_name, addresses)
        except FileNotFoundError:
            return None
        except (OSError, CertificateError) as error:
            logger.info("%s: %s; it isn't used", path, error)
            return None

    def forget_request(self, node_name: str) -> None:
        """Remove the pending request: it has been answered, or it's given up."""
        _remove(self._requests / _build_file_name(node_name))

    def forget(self, node_name: str) -> None:
        """Remove all of a node."""
        for folder in (self._issued, self._self_signed, self._requests):
            _remove(folder / _build_file_name(node_name))


def check_pair(certificate_file: Path, key_file: Path) -> x509.Certificate:
    """
    Check that two files (or one) make a pair that a server can use, and return the leaf.

    Raises:
        CertificateError: Names the file and what is wrong with it.
    """
    leaf = _read_leaf(certificate_file)
    try:
        key_file.read_bytes()
        # What servers will do with it; the callback keeps OpenSSL from asking for a password.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate_file, key_file, password=lambda: "")
    except ssl.SSLError as error:
        problem = (error.reason or "can't be read").lower().replace("_", " ")
        raise CertificateError(f"{key_file}: not the certificate's key: {problem}") from error
    except OSError as error:
        raise CertificateError(f"{key_file}: can't be read: {error.strerror}") from error
    return leaf


def describe_pair(
    leaf: x509.Certificate, certificate_file: Path, key_file: Path, *, self_signed: bool
) -> ServingCertificate:
    """Make the value that a checked pair crosses the seam as."""
    return ServingCertificate(
        certificate_file=certificate_file,
        key_file=key_file,
        not_before=leaf.not_valid_before_utc,
        not_after=leaf.not_valid_after_utc,
        self_signed=self_signed,
    )


def _build_file_name(node_name: str) -> str:
    return f"{build_file_stem(node_name)}.pem"


def _read_leaf(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0]
    except OSError as error:
        raise CertificateError(f"{path}: can't be read: {error.strerror}") from error
    except ValueError as error:
        raise CertificateError(f"{path}: holds no certificate that can be read") from error


def _write_pair(path: Path, signer: str, pair: KeyPair) -> None:
    header = f"{_SIGNER_LINE}{signer}\n".encode()
    chain = pair.certificate_pem.rstrip(b"\n") + b"\n"
    write_private_file(path, header + chain + pair.key_pem)


def _load_pair(
    path: Path, addresses: Sequence[str], signer: str, now: datetime
) -> ServingCertificate | None:
    if not path.exists():
        return None
    try:
        leaf = check_pair(path, path)
        is_signers = path.read_bytes().startswith(f"{_SIGNER_LINE}{signer}\n".encode())
    except (CertificateError, OSError) as error:
        logger.warning("%s; it isn't used", error)
        return None
    problem = _find_problem(leaf, addresses, now) if is_signers else "comes from another signer"
    if problem:
        logger.info("%s: %s; it isn't used", path, problem)
        return None
    return describe_pair(leaf, path, path, self_signed=signer == _SELF_SIGNED)


def _find_problem(leaf: x509.Certificate, addresses: Sequence[str], now: datetime) -> str:
    """Return what keeps a certificate from being used, "" if nothing does."""
    if uncovered := find_uncovered(leaf, addresses):
        return f"isn't made out to {', '.join(uncovered)}"
    # Not yet valid is no problem: our clock may be behind the signer's.
    if now >= leaf.not_valid_after_utc:
        return f"expired at {leaf.not_valid_after_utc}"
    return ""


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s: can't be removed: %s", path, error.strerror)
