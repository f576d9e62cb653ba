"""Certificates for tests: an authority, and what it issues."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_START = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_END = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority without the extensions that Python 3.13's strict mode asks for."""

    def __init__(self, name: str = "test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._certificate = self._build(self._name, self._key, ca=True, host="")
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str, *, host: str = "") -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
        certificate = self._build(name, key, ca=False, host=host)
        return Issued(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def _build(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool, host: str
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_START)
            .not_valid_after(_END)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if host:
            names: list[x509.GeneralName] = []
            try:
                names.append(x509.IPAddress(ipaddress.ip_address(host)))
            except ValueError:
                names.append(x509.DNSName(host))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def server_context(authority: Authority, folder: Path, host: str = "127.0.0.1") -> ssl.SSLContext:
    """A server's TLS context that asks for client certificates of the same authority."""
    issued = authority.issue("server", host=host)
    path = folder / "server.pem"
    path.write_bytes(issued.certificate + issued.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    context.load_verify_locations(cadata=authority.pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
