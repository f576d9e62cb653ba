"""A port that answers as a kubelet would, and a Node that leads to it; for some seconds."""

import asyncio
import secrets
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from certs.ca import issue_self_signed
from provider.labels import PROVIDER_TAINT, TYPE, TYPE_VIRTUAL_KUBELET
from vkubelet.config import PortRange
from vkubelet.kube.objects import NODES, KubeObject

PREFIX = "vkubelet-check-"
CHECK_TAINT = "vkubelet.io/check"
_LIFETIME = timedelta(hours=1)
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def make_node(address: str, port: int) -> KubeObject:
    """Build a Node that nothing is bound to: DaemonSets that tolerate everything apart."""
    ready = {"type": "Ready", "status": "False", "reason": "Check", "message": "vkubelet check"}
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {
            "name": f"{PREFIX}{secrets.token_hex(4)}",
            "labels": {TYPE: TYPE_VIRTUAL_KUBELET},
        },
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": PROVIDER_TAINT, "effect": "NoSchedule"},
                {"key": CHECK_TAINT, "effect": "NoExecute"},
            ],
        },
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "conditions": [ready],
        },
    }


@asynccontextmanager
async def listen(address: str, ports: PortRange) -> AsyncIterator[int]:
    """
    Answer any request by TLS on the first free port, which is yielded.

    Raises:
        OSError: If there is none, or the address isn't this machine's.
    """
    context = await asyncio.to_thread(_build_context, address)
    server = await _start(address, ports, context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _start(address: str, ports: PortRange, context: ssl.SSLContext) -> asyncio.Server:
    for port in range(ports.first, ports.last):
        try:
            return await asyncio.start_server(_answer, address, port, ssl=context)
        except OSError:
            continue
    return await asyncio.start_server(_answer, address, ports.last, ssl=context)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_ANSWER)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # whoever it was came that far
    finally:
        writer.close()


def _build_context(address: str) -> ssl.SSLContext:
    pair = issue_self_signed("vkubelet-check", [address], lifetime=_LIFETIME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pair.pem")
        file.touch(mode=0o600)
        file.write_bytes(pair.certificate_pem + pair.key_pem)
        context.load_cert_chain(file)
    return context
