"""
Certificates of a test cluster.

Its own code, so that the product's `certs` is checked against something else.
"""

import base64
import datetime
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_BACKDATED = datetime.timedelta(minutes=5)
_VALID = datetime.timedelta(days=30)


def _build_name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _start_certificate(
    subject: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _VALID)
    )


def _build_key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _serialize_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """
    A key and what proves it.

    Attributes:
        certificate: PEM of the certificate, or of the bare public key.
        key: PEM of the private key.
    """

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write NAME.crt and NAME.key, and return their paths."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


def generate_key_pair() -> KeyPair:
    """Make a pair for signing tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return KeyPair(certificate=public, key=_serialize_key(key))


class Authority:
    """A certificate authority that lives in memory."""

    def __init__(self, common_name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _build_name(common_name)
        public = self._key.public_key()
        self._certificate = (
            _start_certificate(self._name, public)
            .issuer_name(self._name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_build_key_usage(authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> bytes:
        """PEM of the authority's own certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pair(self) -> KeyPair:
        """The authority's own key and certificate, for a signer elsewhere."""
        return KeyPair(certificate=self.certificate, key=_serialize_key(self._key))

    def issue_client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Issue a client certificate: the user is its common name, the groups its organizations."""
        return self._issue(_build_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def issue_server(self, common_name: str, addresses: Sequence[str]) -> KeyPair:
        """Issue a serving certificate for IP addresses and DNS names."""
        names = x509.SubjectAlternativeName([_build_general_name(name) for name in addresses])
        return self._issue(_build_name(common_name), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None = None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _start_certificate(subject, key.public_key())
            .issuer_name(self._name)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_build_key_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(
            certificate=certificate.public_bytes(serialization.Encoding.PEM),
            key=_serialize_key(key),
        )


def _build_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def build_kubeconfig(server: str, authority: bytes, client: KeyPair) -> str:
    """Build a kubeconfig that holds all it needs in itself (JSON, which is YAML too)."""

    def encode(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    name = "default"
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [
                {
                    "name": name,
                    "cluster": {"server": server, "certificate-authority-data": encode(authority)},
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": encode(client.certificate),
                        "client-key-data": encode(client.key),
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        },
        indent=1,
    )
