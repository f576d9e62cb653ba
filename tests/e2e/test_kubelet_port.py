"""The kubelet's port itself: a real kubelet and the virtual node asked the same, by HTTP."""

import base64
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import aiohttp
import msgspec
import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import NODE, get
from tests.e2e.differential import Both
from tests.e2e.node_config import KUBELET_PORT
from tests.e2e.real_node import RealNode

pytestmark = pytest.mark.e2e

Request: TypeAlias = tuple[str, str, Mapping[str, str]]
Answer: TypeAlias = tuple[int, str]
"""The code, and the text; of a JSON Status its message. Upgrades are refused by such a one,
as API servers show its text, and that of a bare text not always."""

_UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
_PROTOCOL = {"X-Stream-Protocol-Version": "v4.channel.k8s.io"}
_EXEC = "/exec/{ns}/talker/main?command=true&output=1"

REQUESTS: Sequence[Request] = (
    ("GET", "/healthz", {}),
    ("GET", "/none", {}),
    ("GET", "/containerLogs/{ns}/ended/main", {}),
    ("POST", "/containerLogs/{ns}/ended/main", {}),
    ("GET", "/containerLogs/{ns}/ended/none", {}),
    ("GET", "/containerLogs/{ns}/none/main", {}),
    ("GET", "/containerLogs/none/ended/main", {}),
    ("GET", "/containerLogs/{ns}/ended", {}),
    ("GET", "/containerLogs/{ns}/no-image/main", {}),
    ("GET", "/containerLogs/{ns}/initializing/main", {}),
    ("GET", "/containerLogs/{ns}/talker/main?previous=true", {}),
    *(
        ("GET", f"/containerLogs/{{ns}}/ended/main?{query}", {})
        for query in (
            "tailLines=x", "tailLines=-1", "tailLines=0", "limitBytes=0", "limitBytes=2",
            "sinceSeconds=0", "sinceTime=x", "tail=all", "tail=1", "follow=maybe", "timestamps=no",
            "stream=Bad", "stream=Stdout",
        )
    ),
    ("GET", _EXEC, {}),
    ("POST", _EXEC, {}),
    ("PUT", _EXEC, {}),
    ("POST", _EXEC, _UPGRADE),
    ("POST", _EXEC, {**_UPGRADE, "X-Stream-Protocol-Version": "v9.channel.k8s.io"}),
    ("POST", "/exec/{ns}/talker/main?command=true", {**_UPGRADE, **_PROTOCOL}),
    ("POST", "/exec/{ns}/talker/none?command=true&output=1", {**_UPGRADE, **_PROTOCOL}),
    ("POST", "/exec/{ns}/none/main?command=true&output=1", {**_UPGRADE, **_PROTOCOL}),
    ("POST", "/exec/{ns}/no-image/main?command=true&output=1", {**_UPGRADE, **_PROTOCOL}),
    ("POST", "/exec/{ns}/initializing/main?command=true&output=1", {**_UPGRADE, **_PROTOCOL}),
    ("POST", "/exec/{ns}/ended/main?command=true&output=1", {**_UPGRADE, **_PROTOCOL}),
    ("POST", "/attach/{ns}/none/main?output=1", {**_UPGRADE, **_PROTOCOL}),
    ("POST", "/attach/{ns}/talker/none?output=1", {**_UPGRADE, **_PROTOCOL}),
    ("POST", "/attach/{ns}/no-image/main?output=1", {**_UPGRADE, **_PROTOCOL}),
    ("POST", "/portForward/{ns}/none", _UPGRADE),
    ("POST", "/portForward/{ns}/talker", {}),
)  # fmt: skip


def _build_tls(cluster: Cluster, kubeconfig: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(cluster.folder / "serving-ca.crt"))
    if kubeconfig is not None:
        user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
        pair = kubeconfig.with_suffix(".pem")
        keys = ("client-certificate-data", "client-key-data")
        pair.write_bytes(b"".join(base64.b64decode(user[key]) for key in keys))
        context.load_cert_chain(pair)
    return context


async def _ask(server: str, tls: ssl.SSLContext, request: Request) -> Answer:
    method, path, headers = request
    timeout = aiohttp.ClientTimeout(total=20)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.request(method, f"{server}{path}", ssl=tls, headers=headers) as response,
    ):
        if response.status == 101:
            return 101, ""
        text = await response.text()
        if response.content_type == "application/json" and text.startswith('{"kind"'):
            text = str(msgspec.json.decode(text)["message"])
        return response.status, text.rstrip("\n")


async def _ask_both(
    both: Both, node: RealNode, users: tuple[Path | None, Path | None], request: Request
) -> tuple[Answer, Answer]:
    """Ask the real kubelet and the virtual node, as a user of the remote and one of home."""
    method, path, headers = request
    virtual = await get(both.home, "node", NODE)
    port = virtual["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    code, text = await _ask(
        f"https://{node.slot.node_address}:{KUBELET_PORT}",
        _build_tls(both.remote, users[0]),
        (method, path.replace("{ns}", both.remote_namespace), headers),
    )
    through = await _ask(
        f"https://127.0.0.1:{port}",
        _build_tls(both.home, users[1]),
        (method, path.replace("{ns}", both.namespace), headers),
    )
    text = text.replace(both.remote_namespace, both.namespace).replace(node.name, NODE)
    return (code, text), through


@pytest.mark.parametrize(
    "request_",
    REQUESTS,
    ids=[f"{method} {path} {len(headers)}" for method, path, headers in REQUESTS],
)
async def test_requests(both: Both, real_node: RealNode, request_: Request) -> None:
    users = (both.remote.admin_kubeconfig, both.home.admin_kubeconfig)
    direct, through = await _ask_both(both, real_node, users, request_)
    assert through == direct


@pytest.mark.parametrize("path", ["/containerLogs/{ns}/ended/main", _EXEC, "/pods"])
@pytest.mark.parametrize("user", ["nobody", "someone"])
async def test_who_has_no_right(both: Both, real_node: RealNode, user: str, path: str) -> None:
    users: tuple[Path | None, Path | None] = (None, None)
    if user == "someone":
        users = (both.remote.kubeconfig_for(user), both.home.kubeconfig_for(user))
    direct, through = await _ask_both(both, real_node, users, ("GET", path, {}))
    assert direct[0] == (401 if user == "nobody" else 403)
    assert through == direct
