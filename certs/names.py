"""What a certificate is made out to: subjects and alternative names."""

import ipaddress
import warnings
from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.x509.oid import NameOID

NODES_ORGANIZATION = "system:nodes"
"""Group of all kubelets; the only organization that the kubelet-serving signer accepts."""

# RFC 5280 bounds common names at 64 characters, node names go up to 253. Kubernetes accepts what
# is longer; the library would warn at each such certificate, to no one's use.
warnings.filterwarnings("ignore", "Attribute's length must be", UserWarning)


def build_node_common_name(node_name: str) -> str:
    """Common name of a kubelet's certificate."""
    return f"system:node:{node_name}"


def build_subject(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    """Build a subject; the common name may be longer than 64 characters."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name, _validate=False))
    return x509.Name(attributes)


def build_alternative_names(addresses: Iterable[str]) -> x509.SubjectAlternativeName:
    """Build alternative names: IP addresses as such, anything else as DNS names."""
    return x509.SubjectAlternativeName([_build_general_name(address) for address in addresses])


def find_uncovered(certificate: x509.Certificate, addresses: Sequence[str]) -> list[str]:
    """Return those addresses that the certificate isn't made out to."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return list(addresses)
    covered = set(extension.value)
    return [address for address in addresses if _build_general_name(address) not in covered]


def _build_general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
