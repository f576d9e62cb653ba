"""TLS of a node's port: certificate and client CA can be replaced while connections are open."""

import logging
import ssl
from collections.abc import Callable

from vkubelet.interface import ServingCertificate
from vkubelet.server.errors import ServingCertificateError

logger = logging.getLogger(__name__)


class ServingTls:
    """
    The context for the next handshake; each connection keeps the one it was made with.

    Client certificates are optional, as callers may have tokens; one that the CA didn't sign for
    client authentication fails the handshake. Without a client CA none is asked for.
    """

    def __init__(self, certificate: ServingCertificate, client_ca: str | None = None) -> None:
        self._certificate = certificate
        self._client_ca = client_ca
        self._context = _build_context(certificate, client_ca)
        self._client_ca_handlers: set[Callable[[], None]] = set()

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next handshake."""
        return self._context

    @property
    def client_ca(self) -> str | None:
        """The CAs that client certificates are checked against, PEM."""
        return self._client_ca

    def replace_certificate(self, certificate: ServingCertificate) -> None:
        """
        Serve this certificate from the next handshake on.

        Raises:
            ServingCertificateError: If it can't be loaded; the former one stays.
        """
        self._context = _build_context(certificate, self._client_ca)
        self._certificate = certificate

    def replace_client_ca(self, client_ca: str | None) -> None:
        """
        Trust these CAs (PEM) from the next handshake on; idle connections are closed.

        Raises:
            ServingCertificateError: If they can't be loaded; the former ones stay.
        """
        if client_ca == self._client_ca:
            return
        self._context = _build_context(self._certificate, client_ca)
        self._client_ca = client_ca
        for handler in tuple(self._client_ca_handlers):
            handler()

    def add_client_ca_handler(self, handler: Callable[[], None]) -> None:
        """Have `handler` called after the client CA was replaced."""
        self._client_ca_handlers.add(handler)

    def remove_client_ca_handler(self, handler: Callable[[], None]) -> None:
        """Undo `add_client_ca_handler`."""
        self._client_ca_handlers.discard(handler)


def _build_context(certificate: ServingCertificate, client_ca: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # API servers take h2 for logs if it's offered, and can't upgrade then.
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would outlive the CA that its certificate was checked against.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        context.load_cert_chain(certificate.certificate_file, certificate.key_file)
    except (OSError, ValueError) as error:
        raise ServingCertificateError(
            f"serving certificate {certificate.certificate_file}: {error}"
        ) from error
    if client_ca:
        load_client_ca(context, client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def load_client_ca(context: ssl.SSLContext, client_ca: str) -> None:
    """
    Have a context trust a PEM bundle.

    Raises:
        ServingCertificateError: If there is no usable certificate in it.
    """
    try:
        context.load_verify_locations(cadata=client_ca)
    except (OSError, ValueError) as error:
        raise ServingCertificateError(f"client CA: {error}") from error
