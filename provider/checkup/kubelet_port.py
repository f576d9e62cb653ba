"""Whether the home API server reaches the kubelet ports: it's asked to go there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address

from provider.checkup.finding import Finding, failure, ok, skipped
from provider.checkup.probe import listen, make_node
from provider.checkup.surroundings import Surroundings
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import (
    BadRequestError,
    ForbiddenError,
    KubeError,
    StatusError,
    UnreachableError,
)
from vkubelet.kube.objects import NODES, KubeObject, NamespacedName

MAX_NODES = 5
"""Virtual nodes that are tried: all are in one process."""

_NEEDS_ADMIN = "run it with the credentials of somebody who may get nodes/proxy"


async def check_kubelet_port(around: Surroundings) -> list[Finding]:
    """Check the ports of the virtual nodes that are there."""
    nodes = [node for node in await around.our_nodes() if _has_port(node)]
    if not nodes:
        return [
            skipped(
                "no virtual node is there yet",
                "--probe tries the kubelet address of this machine or pod by a Node of its own",
            )
        ]
    names = sorted(str(node["metadata"]["name"]) for node in nodes)[:MAX_NODES]
    return [await try_node(around.home, name) for name in names]


def _has_port(node: KubeObject) -> bool:
    endpoints = (node.get("status") or {}).get("daemonEndpoints") or {}
    return bool((endpoints.get("kubeletEndpoint") or {}).get("Port"))


async def try_node(home: KubeClient, name: str) -> Finding:
    """Have the API server ask a Node's kubelet for its health."""
    try:
        await home.get_bytes(f"/api/v1/nodes/{name}/proxy/healthz")
    except ForbiddenError as error:
        if error.status:  # the API server's own word; a kubelet sends text
            return skipped(f"{name}: the port wasn't tried", _NEEDS_ADMIN)
        return ok(f"{name}: the home API server reaches the port, and is told it may not")
    except BadRequestError as error:
        if "address not allowed" in error.message:
            return skipped(
                f"{name}: the API server doesn't proxy to a loopback address",
                "kubectl logs and exec reach it all the same if the API server runs here",
            )
        return failure(f"{name}: {error.message}")
    except (StatusError, UnreachableError) as error:
        return _judge(name, error)
    return ok(f"{name}: the home API server reaches the port")


def _judge(name: str, error: KubeError) -> Finding:
    text = error.message if isinstance(error, StatusError) else str(error)
    if "x509" in text or "tls:" in text:
        return failure(
            f"{name}: the home API server reaches the port, but doesn't trust what serves there:"
            f" {text}",
            "its --kubelet-certificate-authority has to be the signer's",
        )
    return failure(
        f"{name}: the home API server doesn't reach the port: {text}",
        "see that --kubelet-address is right, and that no firewall or NetworkPolicy keeps the"
        " control plane from --kubelet-ports",
    )


async def probe_kubelet_port(around: Surroundings) -> list[Finding]:
    """Listen at the kubelet address, and have the API server come there by a Node of our own."""
    kubelet = around.config.kubelet
    if kubelet.address is None:
        return [skipped("--probe needs --kubelet-address")]
    if ip_address(kubelet.address).is_loopback:
        return [skipped("the API server doesn't proxy to a loopback address")]
    try:
        async with (
            listen(kubelet.address, kubelet.ports) as port,
            _node(around.home, kubelet.address, port) as name,
        ):
            finding = await try_node(around.home, name)
    except OSError as error:
        return [failure(f"{kubelet.address} can't be listened on here: {error.strerror or error}")]
    if "doesn't trust" in finding.message:  # nobody trusts the probe's certificate
        return [ok(f"the home API server reaches {kubelet.address}:{port}")]
    return [finding]


@asynccontextmanager
async def _node(home: KubeClient, address: str, port: int) -> AsyncIterator[str]:
    """Have a Node that leads to a port while the context is open."""
    body = make_node(address, port)
    name = body["metadata"]["name"]
    await home.create(NODES, body)
    try:
        yield name
    finally:
        with suppress(KubeError):
            await home.delete(NODES, NamespacedName("", name))
