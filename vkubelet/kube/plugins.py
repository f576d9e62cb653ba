"""
Credentials from exec plugins and auth providers, by kubernetes_asyncio.

The only module that imports that library, and only when a kubeconfig needs it: it costs half a
second and 32 MiB.
"""

import asyncio
import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vkubelet.kube.errors import AccessError
from vkubelet.kube.kubeconfig import PluginSettings, check_header

PLUGIN_TIMEOUT_SECONDS = 60.0
"""Some plugins talk to a cloud's identity service; one that waits for a person never ends."""

PROVIDER_PERIOD_SECONDS = 60.0
"""Auth providers don't say when their token ends; the library looks at it each time it's asked."""

MAX_COMPLAINT_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCredentials:
    """
    What a plugin gave.

    Attributes:
        authorization: Value of the Authorization header, "" if it gave none.
        certificate: PEM of a client certificate, None if it gave none.
        key: PEM of its private key.
        expires_at: Wall clock, in seconds, after which it must be asked again; None: when the
            server says 401.
    """

    authorization: str = field(default="", repr=False)
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    expires_at: float | None = None


class CredentialPlugin:
    """One exec plugin or auth provider of a kubeconfig."""

    def __init__(self, settings: PluginSettings) -> None:
        self.settings = settings
        # The library keeps a renewed token in the section that it was given.
        self._config = copy.deepcopy(dict(settings.config))

    async def run(self) -> PluginCredentials:
        """
        Ask for credentials; a plugin is stopped with its transport when this is cancelled.

        Raises:
            AccessError: If it gives none.
        """
        kind = self.settings.kind
        try:
            # The import takes long and would hold up the loop.
            await asyncio.to_thread(_import_library)
            async with asyncio.timeout(PLUGIN_TIMEOUT_SECONDS):
                if kind == "exec":
                    return _read_exec_status(await _run_exec(self._config, self.settings.folder))
                return await _ask_provider(self._config)
        except TimeoutError:
            raise AccessError(
                f"{kind}: no credentials within {PLUGIN_TIMEOUT_SECONDS:.0f} s"
            ) from None
        except AccessError:
            raise
        except Exception as error:  # a plugin's answer can break the library in any way
            complaint = str(error) or type(error).__name__
            raise AccessError(
                f"{kind} gave no credentials: {complaint[:MAX_COMPLAINT_CHARACTERS]}"
            ) from error


def _import_library() -> None:
    import kubernetes_asyncio.config.kube_config  # noqa: F401 - only to have it loaded


async def _run_exec(config: Mapping[str, Any], folder: Path) -> object:
    from kubernetes_asyncio.config.exec_provider import ExecProvider
    from kubernetes_asyncio.config.kube_config import ConfigNode

    command = config.get("command")
    if not isinstance(command, str) or not command:
        raise AccessError("exec: the section has no command")
    if "/" in command and not Path(command).is_absolute():
        config = {**config, "command": str(folder / command)}
    try:
        status: object = await ExecProvider(ConfigNode("exec", config)).run()
    except OSError as error:
        raise AccessError(f"exec: {command!r}: {error.strerror or error}") from error
    return status


def _read_exec_status(status: object) -> PluginCredentials:
    if not isinstance(status, Mapping):
        raise AccessError("exec: the plugin's answer holds no status")
    token, certificate, key = (
        status.get(name) or "" for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if not all(isinstance(value, str) for value in (token, certificate, key)):
        raise AccessError("exec: the plugin's answer holds credentials that aren't text")
    if bool(certificate) != bool(key):
        raise AccessError("exec: clientCertificateData and clientKeyData only work together")
    if not token and not certificate:
        raise AccessError("exec: the plugin's answer holds neither token nor client certificate")
    return PluginCredentials(
        authorization=check_header("exec token", f"Bearer {token.strip()}") if token else "",
        certificate=certificate.encode() if certificate else None,
        key=key.encode() if key else None,
        expires_at=_parse_expiry(status.get("expirationTimestamp")),
    )


def _parse_expiry(text: object) -> float | None:
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(str(text))
    except ValueError:
        raise AccessError("exec: the plugin's expirationTimestamp isn't a time") from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


async def _ask_provider(config: Mapping[str, Any]) -> PluginCredentials:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader

    name = config.get("name")
    if name not in {"oidc", "gcp"}:
        raise AccessError(f"auth-provider {name!r} isn't supported; use an exec plugin")
    loader = KubeConfigLoader(
        config_dict={
            "current-context": "only",
            "contexts": [{"name": "only", "context": {"cluster": "only", "user": "only"}}],
            "clusters": [{"name": "only", "cluster": {"server": "unused"}}],
            "users": [{"name": "only", "user": {"auth-provider": config}}],
        }
    )
    await loader.load_and_set(Configuration())
    authorization = getattr(loader, "token", "")
    if not authorization:
        raise AccessError(f"auth-provider {name!r} gave no token")
    return PluginCredentials(
        authorization=check_header("auth-provider token", authorization),
        expires_at=time.time() + PROVIDER_PERIOD_SECONDS,
    )
