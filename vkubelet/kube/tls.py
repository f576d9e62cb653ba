"""TLS contexts of a client, from certificates and keys in memory."""

import os
import ssl
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from vkubelet.kube.errors import AccessError


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """
    What a TLS context is made of; equal settings can share one.

    Attributes:
        ca: PEM bundle that alone is trusted; None: the system's.
        insecure: Whether the server's certificate isn't verified at all.
        certificate: PEM of the client certificate with its chain, None for none.
        key: PEM of its private key.
    """

    ca: bytes | None = None
    insecure: bool = False
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)


def build_ssl_context(settings: TlsSettings) -> ssl.SSLContext:
    """
    Build a context that verifies as Go's TLS does.

    Raises:
        AccessError: If a certificate or key can't be used.
    """
    if settings.ca is not None and not settings.ca.strip():
        # `ssl` would take this as none given, and trust every authority of the system.
        raise AccessError("the certificate authority isn't usable PEM: it's empty")
    try:
        context = ssl.create_default_context(
            cadata=settings.ca.decode("ascii") if settings.ca is not None else None
        )
    except (ssl.SSLError, ValueError) as error:
        raise AccessError(f"the certificate authority isn't usable PEM: {error}") from error
    # Python 3.13 demands extensions that many clusters' CAs lack and that Go doesn't ask for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # As in Go, an intermediate in the bundle is a root of trust.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.certificate is not None and settings.key is not None:
        _load_client_certificate(context, settings.certificate, settings.key)
    return context


def _load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a pair through a file, as `ssl` knows no other way; on Linux one that is on no disk."""
    pem = certificate.rstrip() + b"\n" + key.rstrip() + b"\n"
    try:
        if sys.platform == "linux":
            descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
            with os.fdopen(descriptor, "wb") as file:
                file.write(pem)
                file.flush()
                # Without a password OpenSSL would ask on the terminal for that of an encrypted key.
                context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")
        else:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "client.pem")
                path.touch(mode=0o600)
                path.write_bytes(pem)
                context.load_cert_chain(path, password="")
    except (OSError, ValueError) as error:
        raise AccessError(f"the client certificate and its key can't be used: {error}") from error
