"""How to reach a cluster: server, TLS and credentials, from a kubeconfig or from inside a pod."""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from multidict import CIMultiDict, CIMultiDictProxy

from vkubelet.kube.errors import AccessError
from vkubelet.kube.files import SERVICE_ACCOUNT_FOLDER, FileReader, unchanged
from vkubelet.kube.kubeconfig import (
    ClusterSettings,
    FileRules,
    PluginSettings,
    check_header,
    check_server,
    read_kubeconfig,
)
from vkubelet.kube.plugins import CredentialPlugin, PluginCredentials
from vkubelet.kube.tls import TlsSettings, build_ssl_context

logger = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
"""
How often the files' stamps are looked at: a rotated credential is used at most this much later.
"""

EXPIRY_LEEWAY_SECONDS = 10.0
"""A plugin is asked this long before its credentials end, as they must last for the request."""

PLUGIN_PAUSE_SECONDS = 5.0
"""
A plugin isn't started more often: one that fails, or gives what the server refuses, would be for
each request.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """
    How to send a request now.

    Attributes:
        headers: Authorization and impersonation.
        ssl: The context; True (aiohttp's default) for a server without TLS.
    """

    server: str
    headers: CIMultiDictProxy[str] = field(repr=False)
    ssl: ssl.SSLContext | Literal[True]
    server_hostname: str | None
    proxy: str | None = field(repr=False)

    def leads_to_same(self, other: "Connection") -> bool:
        """Whether a socket opened for one serves the other too; newer tokens need no other."""
        return self is other or (
            self.ssl is other.ssl
            and self.server == other.server
            and self.server_hostname == other.server_hostname
            and self.proxy == other.proxy
        )


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """
    Which server it is, and how it's known to be the right one.

    Attributes:
        server: Its URL.
        authority: PEM bundle that alone is trusted; None: the system's.
        insecure: Whether its certificate isn't verified at all.
        server_name: Name that its certificate has to be for, None: the URL's host.
    """

    server: str
    authority: bytes | None
    insecure: bool
    server_name: str | None


class ClusterAccess:
    """
    Server URL, TLS context and a way to get the current credentials, kept fresh.

    The files (kubeconfig, tokens, certificates) are read again when they change, and an exec
    plugin is asked again when its credentials expire; both also when the server says 401. A file
    that can't be used any more is warned of once, and what was read before stays in use.
    `KubeClient` asks for a connection at each request.
    """

    def __init__(self, read: Callable[[], ClusterSettings]) -> None:
        """
        Read the settings for the first time. This blocks on the files.

        Args:
            read: Reads everything from the files; called again, in a thread, when one of them
                changes.

        Raises:
            AccessError: If they can't be used.
        """
        self._read = read
        self._settings, self._ssl = self._load()
        self._plugin = _build_plugin(self._settings)
        self._plugin_credentials: PluginCredentials | None = None
        self._plugin_pause_until = 0.0
        self._plugin_complaint = "no credentials"
        self._connection: Connection | None = None
        self._check_at = 0.0
        self._complaint = ""
        self._lock = asyncio.Lock()

    @property
    def server(self) -> str:
        """The API server's URL, for messages."""
        return self._settings.server

    @property
    def trust(self) -> ServerTrust:
        """Server and authority without any credentials, for handing them on."""
        settings = self._settings
        tls = settings.tls
        return ServerTrust(settings.server, tls.ca, tls.insecure, settings.server_hostname)

    async def connection(self) -> Connection:
        """
        How to reach the server now.

        Raises:
            AccessError: If there are no credentials, as a plugin gives none.
        """
        connection = self._connection
        if connection is not None and asyncio.get_running_loop().time() < self._check_at:
            return connection
        async with self._lock:
            if self._connection is None or asyncio.get_running_loop().time() >= self._check_at:
                await self._refresh(forced=False)
            return self._build_connection()

    async def renew(self, rejected: Connection) -> Connection:
        """
        Read all credentials afresh, as the server refused these.

        Returns the same connection when there is nothing newer.

        Raises:
            AccessError: If there are none any more.
        """
        async with self._lock:
            if self._connection is rejected:
                await self._refresh(forced=True)
            return self._build_connection()

    async def _refresh(self, *, forced: bool) -> None:
        if forced or not unchanged(self._settings.stamps):
            await self._reload()
        if self._plugin is not None:
            await self._ask_plugin(self._plugin, forced=forced)
        self._check_at = asyncio.get_running_loop().time() + CHECK_SECONDS

    async def _reload(self) -> None:
        before = self._settings
        try:
            settings, context = await asyncio.to_thread(self._load)
        except AccessError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                logger.warning("%s; the credentials read before stay in use", error)
            return
        self._complaint = ""
        self._settings = settings
        if replace(before, stamps={}) == replace(settings, stamps={}):
            return
        logger.info("%s: read again, as it has changed", settings.source)
        self._connection = None
        # A new context means new connections, which a new token alone isn't worth.
        if _identity(before) != _identity(settings):
            self._ssl = context
            self._plugin = _build_plugin(settings)
            self._plugin_credentials = None
            self._plugin_pause_until = 0.0

    def _load(self) -> tuple[ClusterSettings, ssl.SSLContext | None]:
        """Read the settings, build their TLS context; runs in a thread, so it changes nothing."""
        settings = self._read()
        return settings, _build_context(settings, settings.tls)

    async def _ask_plugin(self, plugin: CredentialPlugin, *, forced: bool) -> None:
        held = self._plugin_credentials
        if held is not None and not forced and not _expires(held, EXPIRY_LEEWAY_SECONDS):
            return
        now = asyncio.get_running_loop().time()
        if now < self._plugin_pause_until:
            if held is None or _expires(held, 0.0):
                raise AccessError(self._plugin_complaint)
            return
        self._plugin_pause_until = now + PLUGIN_PAUSE_SECONDS
        try:
            credentials = await plugin.run()
            if credentials.certificate is not None:
                self._ssl = _build_context(
                    self._settings,
                    replace(
                        self._settings.tls, certificate=credentials.certificate, key=credentials.key
                    ),
                )
        except AccessError as error:
            self._plugin_complaint = f"{self._settings.source}: {error}"
            if held is None or _expires(held, 0.0):
                raise AccessError(self._plugin_complaint) from error
            logger.warning("%s; the credentials held stay in use", self._plugin_complaint)
            return
        if credentials != held:
            self._plugin_credentials = credentials
            self._connection = None

    def _build_connection(self) -> Connection:
        if self._connection is None:
            settings = self._settings
            headers = CIMultiDict(settings.headers)
            if self._plugin_credentials is not None and self._plugin_credentials.authorization:
                headers["Authorization"] = self._plugin_credentials.authorization
            self._connection = Connection(
                server=settings.server,
                headers=CIMultiDictProxy(headers),
                ssl=self._ssl if self._ssl is not None else True,
                server_hostname=settings.server_hostname if self._ssl is not None else None,
                proxy=settings.proxy,
            )
        return self._connection


async def load_kubeconfig(
    path: Path | None,
    context: str | None,
    *,
    allow_exec: bool = True,
    allow_outside_files: bool = True,
) -> ClusterAccess:
    """
    Read a kubeconfig (None: those in KUBECONFIG, else ~/.kube/config).

    With `allow_exec` off an exec plugin or auth provider is refused; with `allow_outside_files`
    off a file reference (tokenFile, client-certificate, client-key, certificate-authority) outside
    the kubeconfig's own folder is (symbolic links resolved). The same holds when the file is read
    again.

    Raises:
        AccessError: One sentence that names file, context or user, and what is wrong.
    """
    rules = FileRules(allow_exec=allow_exec, allow_outside_files=allow_outside_files)
    listed = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if path is not None:
        paths, all_must_exist = [path], True
    elif listed:
        paths, all_must_exist = listed, False
    else:
        paths, all_must_exist = [Path.home() / ".kube" / "config"], True
    access = await asyncio.to_thread(
        ClusterAccess,
        lambda: read_kubeconfig(paths, context, rules, all_must_exist=all_must_exist),
    )
    # Asks the exec plugin, so that one that doesn't work is an error of the start.
    await access.connection()
    return access


def load_in_cluster(folder: Path = SERVICE_ACCOUNT_FOLDER) -> ClusterAccess:
    """
    Access from inside a pod, by its service account; the token file is read again as it rotates.

    Raises:
        AccessError: If this isn't a pod.
    """
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise AccessError("not in a cluster: KUBERNETES_SERVICE_HOST or _PORT isn't set")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ClusterAccess(lambda: _read_service_account(check_server(server), folder))


def in_cluster_namespace(folder: Path = SERVICE_ACCOUNT_FOLDER) -> str | None:
    """The pod's own namespace, None outside a cluster."""
    try:
        content = FileReader().read(folder / "namespace", "namespace")
    except AccessError:
        return None
    return content.decode(errors="replace").strip() or None


def _read_service_account(server: str, folder: Path) -> ClusterSettings:
    reader = FileReader()
    source = f"service account in {folder}"
    try:
        token = reader.read(folder / "token", "token").decode(errors="replace").strip()
        return ClusterSettings(
            source=source,
            server=server,
            tls=TlsSettings(ca=reader.read(folder / "ca.crt", "certificate authority")),
            headers=(("Authorization", _bearer(token)),),
            stamps=reader.stamps,
        )
    except AccessError as error:
        raise AccessError(f"{source}: {error}") from error


def _identity(settings: ClusterSettings) -> tuple[str, TlsSettings, PluginSettings | None]:
    return settings.server, settings.tls, settings.plugin


def _build_plugin(settings: ClusterSettings) -> CredentialPlugin | None:
    return CredentialPlugin(settings.plugin) if settings.plugin is not None else None


def _build_context(settings: ClusterSettings, tls: TlsSettings) -> ssl.SSLContext | None:
    if not settings.server.startswith("https:"):
        return None
    try:
        return build_ssl_context(tls)
    except AccessError as error:
        raise AccessError(f"{settings.source}: {error}") from error


def _expires(credentials: PluginCredentials, leeway_seconds: float) -> bool:
    """Whether they end within the leeway; those without an end never do."""
    return (
        credentials.expires_at is not None
        and credentials.expires_at <= time.time() + leeway_seconds
    )


def _bearer(token: str) -> str:
    if not token:
        raise AccessError("the token file is empty")
    return check_header("token", f"Bearer {token}")
