"""`vkubelet kubeconfig`: make a kubeconfig of a service account, by a token that expires."""

import base64
import ipaddress
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from certs.errors import CertificateError
from certs.keys import write_private_file
from provider.app import load_home_access
from provider.checks import Duration
from provider.commands.launch import run_to_end
from provider.config import HomeConfig
from provider.errors import StartError
from vkubelet.kube.access import ServerTrust
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError, NotFoundError
from vkubelet.kube.objects import SECRETS, SERVICE_ACCOUNTS, KubeObject, NamespacedName
from vkubelet.times import format_time, parse_time, utc_now

SHORTER_BY = timedelta(seconds=60)
"""A token that lasts this much less than asked for is worth a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigOptions:
    """
    What is made.

    Attributes:
        kubeconfig: Of somebody who may ask for tokens; None: the usual rules.
        context: Context in it.
        account: The service account.
        duration: How long the token is to last.
        server: URL of the API server as others reach it; None: as in the kubeconfig.
        bound_secret: A Secret of the account's namespace whose deletion ends the token.
        out: File that is replaced; None: standard output.
    """

    account: NamespacedName
    duration: Duration
    kubeconfig: Path | None = None
    context: str | None = None
    server: str | None = None
    bound_secret: str | None = None
    out: Path | None = None


def main(options: KubeconfigOptions) -> int:
    """
    Make the kubeconfig, and print or write it.

    Raises:
        StartError: If it can't be made.
    """
    return run_to_end(lambda: make_kubeconfig(options))


async def make_kubeconfig(options: KubeconfigOptions) -> int:
    """
    Make the kubeconfig, in a running loop; see `main`.

    Raises:
        StartError: If it can't be made.
    """
    try:
        access = await load_home_access(
            HomeConfig(kubeconfig=options.kubeconfig, context=options.context)
        )
        trust = access.trust
        if trust.insecure:
            raise StartError(
                "the kubeconfig doesn't verify the API server: whoever is in between would get the"
                " token"
            )
        async with KubeClient(access, name="remote") as client:
            status = await _request_token(client, options)
    except NotFoundError as error:
        raise StartError(f"{error.message} (does the service account exist?)") from error
    except KubeError as error:
        raise StartError(str(error)) from error
    text = yaml.safe_dump(build_kubeconfig(trust, options, str(status["token"])), sort_keys=False)
    _write(text, options.out)
    for line in describe(trust, options, parse_time(status.get("expirationTimestamp")), utc_now()):
        sys.stderr.write(f"vkubelet: {line}\n")
    return 0


async def _request_token(client: KubeClient, options: KubeconfigOptions) -> KubeObject:
    account = options.account
    spec: KubeObject = {"expirationSeconds": int(options.duration.seconds)}
    if options.bound_secret is not None:
        secret = await client.get(SECRETS, NamespacedName(account.namespace, options.bound_secret))
        spec["boundObjectRef"] = {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "name": options.bound_secret,
            "uid": secret["metadata"]["uid"],
        }
    answer = await client.create(
        SERVICE_ACCOUNTS,
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
        namespace=account.namespace,
        name=account.name,
        subresource="token",
    )
    status: KubeObject = answer["status"]
    return status


def build_kubeconfig(trust: ServerTrust, options: KubeconfigOptions, token: str) -> dict[str, Any]:
    """Build the kubeconfig; it refers to no files and runs no programs."""
    cluster: dict[str, Any] = {"server": options.server or trust.server}
    if trust.authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(trust.authority).decode()
    if trust.server_name is not None:
        cluster["tls-server-name"] = trust.server_name
    name = options.account.name
    context = {"cluster": name, "user": name, "namespace": options.account.namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }


def _write(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        write_private_file(out, text.encode())
    except CertificateError as error:
        raise StartError(f"--out {error}") from error


def describe(
    trust: ServerTrust, options: KubeconfigOptions, expires: datetime | None, now: datetime
) -> list[str]:
    """Say what should be known of a kubeconfig that was made."""
    lines = []
    if expires is not None:
        asked = timedelta(seconds=options.duration.seconds)
        cut = "" if expires - now > asked - SHORTER_BY else ", as the server allows no longer"
        lines.append(f"the token lasts until {format_time(expires)}{cut}; make the next one before")
    host = urlsplit(options.server or trust.server).hostname or ""
    if _is_loopback(host):
        lines.append(f"the server {host} can't be reached from elsewhere: --server says where")
    return lines


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
