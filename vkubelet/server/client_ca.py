"""The CAs that sign client certificates of the cluster, followed live."""

import logging
import ssl
from collections.abc import Callable
from typing import NoReturn

from vkubelet.kube.client import KubeClient
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import CONFIG_MAPS, CachedObject, decode_cached
from vkubelet.server.errors import ServingCertificateError
from vkubelet.server.tls import load_client_ca

logger = logging.getLogger(__name__)

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
KEY = "client-ca-file"
"""Where every API server publishes its `--client-ca-file`."""


class ClientCa:
    """
    The client CA bundle of the cluster.

    What isn't a bundle, or is gone, changes nothing: a moment's fault mustn't lock API servers out.

    Attributes:
        pem: The bundle in force, None as long as there has been none.
    """

    def __init__(self, client: KubeClient) -> None:
        self.pem: str | None = None
        self._handlers: set[Callable[[str], None]] = set()
        self._informer: Informer[CachedObject] = Informer(
            client,
            CONFIG_MAPS,
            decode_cached,
            namespace=NAMESPACE,
            field_selector=f"metadata.name={NAME}",
        )
        self._informer.add_handler(self._handle)

    def add_handler(self, handler: Callable[[str], None]) -> None:
        """Have `handler` called with each bundle that comes into force, at once if there is one."""
        self._handlers.add(handler)
        if self.pem is not None:
            handler(self.pem)

    def remove_handler(self, handler: Callable[[str], None]) -> None:
        """Undo `add_handler`."""
        self._handlers.discard(handler)

    async def wait_synced(self) -> None:
        """Wait until the ConfigMap has been read, or is known to be absent."""
        await self._informer.wait_synced()

    async def run(self) -> NoReturn:
        """Follow the ConfigMap until cancelled."""
        await self._informer.run()

    def _handle(self, _old: CachedObject | None, new: CachedObject | None) -> None:
        pem = (new.decode().get("data") or {}).get(KEY) if new is not None else None
        if pem == self.pem:
            return
        try:
            if not pem:
                raise ServingCertificateError("client CA: there is none")  # noqa: TRY301 - one way out
            load_client_ca(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pem)
        except ServingCertificateError as error:
            kept = "the former one stays" if self.pem else "client certificates aren't accepted"
            logger.warning("ConfigMap %s/%s: %s; %s", NAMESPACE, NAME, error, kept)
            return
        self.pem = pem
        for handler in tuple(self._handlers):
            handler(pem)
