"""What becomes of the certificate signing requests that were sent, by one watch for all."""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import NoReturn

from certs.errors import NotIssuedError
from vkubelet.kube.client import KubeClient
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import (
    CERTIFICATE_SIGNING_REQUESTS,
    CachedObject,
    KubeObject,
    NamespacedName,
    decode_cached,
)


class SentRequests:
    """
    The requests with certain labels, as they are at the API.

    A watch each would be a connection each, and hundreds of nodes ask when they start.
    """

    def __init__(self, client: KubeClient, labels: Mapping[str, str]) -> None:
        """
        Say which; `run` follows them.

        Args:
            client: The home cluster.
            labels: What all requests carry that are to be waited for.
        """
        if not labels:
            raise ValueError("without labels, every request of the cluster would be watched")
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        self._informer: Informer[CachedObject] = Informer(
            client, CERTIFICATE_SIGNING_REQUESTS, decode_cached, label_selector=selector
        )
        self._informer.add_handler(self._handle)
        self._changed: dict[str, asyncio.Event] = {}

    async def run(self) -> NoReturn:
        """Follow until cancelled."""
        await self._informer.run()

    async def wait_issued(self, name: str) -> bytes:
        """
        Wait for the certificate of a request that was sent, as PEM.

        Raises:
            NotIssuedError: If it's denied, has failed, or vanishes.
        """
        changed = self._changed.setdefault(name, asyncio.Event())
        seen = False
        try:
            while True:
                request = self._informer.store.get(NamespacedName("", name))
                if request is not None:
                    seen = True
                    certificate = read_certificate(request.decode())
                    if certificate is not None:
                        return certificate
                elif seen:
                    raise NotIssuedError(f"{name}: was deleted before it was answered")
                changed.clear()
                await changed.wait()
        finally:
            del self._changed[name]

    def _handle(self, old: CachedObject | None, new: CachedObject | None) -> None:
        request = old if new is None else new
        if request is not None and request.metadata.name in self._changed:
            self._changed[request.metadata.name].set()


def read_certificate(request: KubeObject) -> bytes | None:
    """
    Return the certificate of a CertificateSigningRequest, None while it's pending.

    Raises:
        NotIssuedError: If it was denied or has failed.
    """
    name = request["metadata"]["name"]
    status = request.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") in {"Denied", "Failed"} and condition.get("status") != "False":
            reason = condition.get("reason") or "no reason given"
            message = condition.get("message") or "no message"
            raise NotIssuedError(f"{name}: {condition['type'].lower()}: {reason}: {message}")
    encoded = status.get("certificate")
    if not encoded:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotIssuedError(f"{name}: status.certificate isn't base64") from error
