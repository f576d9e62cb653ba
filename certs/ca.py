"""Issuing certificates: a small authority, and self-signed serving certificates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.errors import CertificateError
from certs.keys import generate_key, parse_key, serialize_key
from certs.names import (
    NODES_ORGANIZATION,
    build_alternative_names,
    build_node_common_name,
    build_subject,
)

_BACKDATING = timedelta(minutes=5)
"""Clocks of clients may be that much behind; Kubernetes' own signer allows the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate with its key, as PEM."""

    certificate_pem: bytes
    key_pem: bytes


class CertificateAuthority:
    """A certificate authority of one self-signed ECDSA certificate."""

    def __init__(self, certificate_pem: bytes, key_pem: bytes) -> None:
        self.certificate_pem = certificate_pem
        self.key_pem = key_pem
        self._certificate = x509.load_pem_x509_certificate(certificate_pem)
        self._key = parse_key(key_pem)

    @classmethod
    def create(
        cls,
        common_name: str,
        *,
        lifetime: timedelta = timedelta(days=3650),
        now: datetime | None = None,
    ) -> Self:
        """Make a new authority with a new key."""
        key = generate_key()
        subject = build_subject(common_name)
        builder = _start_certificate(subject, key.public_key(), lifetime, now)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        builder = builder.add_extension(_build_key_usage(authority=True), critical=True)
        certificate = builder.issuer_name(subject).sign(key, hashes.SHA256())
        return cls(_serialize_certificate(certificate), serialize_key(key))

    def issue(
        self,
        common_name: str,
        *,
        organizations: Iterable[str] = (),
        dns_names: Iterable[str] = (),
        ip_addresses: Iterable[str] = (),
        client: bool = False,
        server: bool = False,
        lifetime: timedelta = timedelta(days=365),
        now: datetime | None = None,
    ) -> KeyPair:
        """
        Make a new key and certify it.

        Args:
            common_name: The user name, for Kubernetes; any length.
            organizations: The user's groups, for Kubernetes.
            dns_names: Names of a server.
            ip_addresses: Addresses of a server.
            client: For client authentication.
            server: For server authentication.
            lifetime: From now on.
            now: Current time if it isn't the system's.
        """
        key = generate_key()
        builder = _start_certificate(
            build_subject(common_name, organizations), key.public_key(), lifetime, now
        )
        builder = _add_leaf_extensions(builder, client=client, server=server)
        names = [*dns_names, *ip_addresses]
        if names:
            builder = builder.add_extension(build_alternative_names(names), critical=False)
        return KeyPair(certificate_pem=self._sign(builder), key_pem=serialize_key(key))

    def sign_serving_request(
        self, request_pem: bytes, *, lifetime: timedelta, now: datetime | None = None
    ) -> bytes:
        """
        Certify a signing request as it is, for server authentication.

        Raises:
            CertificateError: If the request isn't signed by its own key or names no server.
        """
        request = x509.load_pem_x509_csr(request_pem)
        public_key = request.public_key()
        if not request.is_signature_valid or not isinstance(public_key, ec.EllipticCurvePublicKey):
            raise CertificateError("the signing request isn't signed by an ECDSA key of its own")
        try:
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound as error:
            raise CertificateError("the signing request names no address") from error
        builder = _start_certificate(request.subject, public_key, lifetime, now)
        builder = _add_leaf_extensions(builder, client=False, server=True)
        return self._sign(builder.add_extension(names.value, critical=False))

    def _sign(self, builder: x509.CertificateBuilder) -> bytes:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(authority, critical=False)
        certificate = builder.issuer_name(self._certificate.subject).sign(
            self._key, hashes.SHA256()
        )
        return _serialize_certificate(certificate)


def issue_self_signed(
    node_name: str, addresses: Sequence[str], *, lifetime: timedelta, now: datetime | None = None
) -> KeyPair:
    """Make a serving certificate for a node that certifies itself; no one can verify it."""
    key = generate_key()
    subject = build_subject(build_node_common_name(node_name), [NODES_ORGANIZATION])
    builder = _start_certificate(subject, key.public_key(), lifetime, now)
    builder = _add_leaf_extensions(builder, client=False, server=True)
    if addresses:
        builder = builder.add_extension(build_alternative_names(addresses), critical=False)
    certificate = builder.issuer_name(subject).sign(key, hashes.SHA256())
    return KeyPair(certificate_pem=_serialize_certificate(certificate), key_pem=serialize_key(key))


def _start_certificate(
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    lifetime: timedelta,
    now: datetime | None,
) -> x509.CertificateBuilder:
    start = now if now is not None else datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _BACKDATING)
        .not_valid_after(start + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _add_leaf_extensions(
    builder: x509.CertificateBuilder, *, client: bool, server: bool
) -> x509.CertificateBuilder:
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_build_key_usage(authority=False), critical=True)
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH] if client else []
    if server:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return builder


def _build_key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _serialize_certificate(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
