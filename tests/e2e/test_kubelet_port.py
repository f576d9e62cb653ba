"""The kubelet's port itself: a real kubelet and the virtual node asked the same, by HTTP."""

import base64
import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import aiohttp
import msgspec
import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import create, get_pod
from tests.e2e.differential import Both, Side

pytestmark = pytest.mark.e2e

Headers: TypeAlias = Mapping[str, str]
Request: TypeAlias = tuple[str, str, Headers]
Answer: TypeAlias = tuple[int, str]
"""
The code, and the text; of a JSON Status its message, of other JSON its kind. Ours refuses upgrades
by a Status, as API servers show its text, and that of a bare text not always.
"""

_UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
_SPDY = {**_UPGRADE, "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
_FORWARD = {**_UPGRADE, "X-Stream-Protocol-Version": "portforward.k8s.io"}
_WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
}
_EXEC = "/exec/{ns}/talker/main?command=true&output=1"

LOGS: Sequence[Request] = (
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
            "stream=Bad", "stream=All", "tailLines=1&stream=Stdout", "follow=%zz",
        )
    ),
)  # fmt: skip

COMMANDS: Sequence[Request] = (
    ("GET", _EXEC, {}),
    ("POST", _EXEC, {}),
    ("PUT", _EXEC, {}),
    ("POST", _EXEC, _UPGRADE),
    ("POST", _EXEC, {**_UPGRADE, "X-Stream-Protocol-Version": "v9.channel.k8s.io"}),
    ("POST", _EXEC, {**_SPDY, "Upgrade": "h2c"}),
    ("POST", "/exec/{ns}/talker/main?command=true", _SPDY),
    ("POST", "/exec/{ns}/talker/main?command=true&error=1&tty=1", _SPDY),
    ("POST", "/exec/{ns}/talker/main?command=true&output=true", _SPDY),
    ("POST", "/exec/{ns}/talker/none?command=true&output=1", _SPDY),
    ("POST", "/exec/{ns}/none/main?command=true&output=1", _SPDY),
    ("POST", "/exec/{ns}/no-image/main?command=true&output=1", _SPDY),
    ("POST", "/exec/{ns}/no-image/main?command=true&output=1", {}),
    ("POST", "/exec/{ns}/initializing/main?command=true&output=1", _SPDY),
    ("POST", "/exec/{ns}/ended/main?command=true&output=1", _SPDY),
    ("POST", "/exec/{ns}/inits/prepare?command=true&output=1", _SPDY),
    ("POST", "/attach/{ns}/none/main?output=1", _SPDY),
    ("POST", "/attach/{ns}/talker/none?output=1", _SPDY),
    ("POST", "/attach/{ns}/talker/main", _SPDY),
    ("POST", "/attach/{ns}/no-image/main?output=1", _SPDY),
    ("POST", "/attach/{ns}/ended/main?output=1", _SPDY),
)

FORWARDS: Sequence[Request] = (
    ("POST", "/portForward/{ns}/none", _FORWARD),
    ("POST", "/portForward/{ns}/talker", {}),
    ("POST", "/portForward/{ns}/talker", _SPDY),
    ("POST", "/portForward/{ns}/ended", _FORWARD),
    ("POST", "/portForward/{ns}/no-image", _FORWARD),
    ("POST", "/portForward/{ns}/talker/other-uid", _FORWARD),
)

OTHERS: Sequence[Request] = (
    ("GET", "/healthz", {}),
    ("GET", "/healthz/ping", {}),
    ("GET", "/healthz/none", {}),
    ("POST", "/healthz", {}),
    ("GET", "/none", {}),
    ("GET", "/", {}),
    ("GET", "/pods/", {}),
    ("POST", "/pods", {}),
    ("GET", "/pods/x", {}),
    ("GET", "/runningpods/x", {}),
    ("GET", "/metrics/x", {}),
    ("GET", "/stats/x", {}),
    ("GET", "/stats/summary/", {}),
    ("GET", "/exec", {}),
    ("DELETE", "/exec/{ns}/talker/main", {}),
)


def _build_tls(cluster: Cluster, kubeconfig: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(cluster.folder / "serving-ca.crt"))
    if kubeconfig is not None:
        user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
        pair = kubeconfig.with_suffix(".pem")
        keys = ("client-certificate-data", "client-key-data")
        pair.write_bytes(b"".join(base64.b64decode(user[key]) for key in keys))
        context.load_cert_chain(pair)
    return context


async def _ask(side: Side, user: str, request: Request) -> Answer:
    """Ask as `admin`, as another user, or as nobody."""
    method, path, headers = request
    cluster = side.cluster
    kubeconfig = {"nobody": None, "admin": cluster.admin_kubeconfig}
    tls = _build_tls(
        cluster, kubeconfig[user] if user in kubeconfig else cluster.kubeconfig_for(user)
    )
    url = f"{await side.find_kubelet()}{path.replace('{ns}', side.namespace)}"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
        session.request(method, url, ssl=tls, headers=headers, allow_redirects=False) as response,
    ):
        if response.status == 101:
            return 101, ""
        text = await response.text()
        if response.content_type == "application/json":
            answer = msgspec.json.decode(text)
            kind = str(answer.get("kind"))
            text = str(answer["message"]) if kind == "Status" else kind
        return response.status, text.rstrip("\n")


async def _ask_both(both: Both, user: str, request: Request) -> tuple[Answer, Answer]:
    code, text = await _ask(both.direct, user, request)
    return (code, both.rename(text)), await _ask(both.through, user, request)


def _name(request: Request) -> str:
    method, path, headers = request
    return f"{method} {path} {' '.join(list(headers.values())[1:])}"


@pytest.mark.parametrize("request_", [*LOGS, *COMMANDS, *FORWARDS, *OTHERS], ids=_name)
async def test_requests(both: Both, request_: Request) -> None:
    direct, through = await _ask_both(both, "admin", request_)
    # A kubelet lists or counts the headers, with those that its own proxy adds.
    direct = direct[0], re.sub(r" with \d+ headers$|: http\.Header{.*}$", "", direct[1])
    assert through == direct


@pytest.mark.parametrize(
    ("path", "protocol"),
    [(_EXEC, "v9.channel.k8s.io"), ("/portForward/{ns}/talker?port=80", "v9.channel.k8s.io")],
)
async def test_refused_websockets(both: Both, path: str, protocol: str) -> None:
    """RIGHT["silent refusals"]."""
    request: Request = ("GET", path, {**_WEBSOCKET, "Sec-WebSocket-Protocol": protocol})
    direct, through = await _ask_both(both, "admin", request)
    assert through[0] == direct[0]
    assert through[1] != direct[1] == ""


async def test_no_command(both: Both) -> None:
    """RIGHT["no command"]."""
    request: Request = ("POST", "/exec/{ns}/talker/main?output=1", _SPDY)
    direct, through = await _ask_both(both, "admin", request)
    assert (direct, through) == ((101, ""), (400, "you must specify a command"))


async def test_strangers(both: Both) -> None:
    """RIGHT["strangers"]."""
    direct, through = await _ask_both(both, "nobody", ("GET", "/none", {}))
    assert (direct, through) == ((404, "404 page not found"), (401, "Unauthorized"))


async def test_log_streams(both: Both) -> None:
    """RIGHT["log streams"]."""
    request: Request = ("GET", "/containerLogs/{ns}/ended/main?stream=Stdout", {})
    direct, through = await _ask_both(both, "admin", request)
    assert direct[0] == through[0] == 400
    assert "feature gate" in direct[1]
    assert "stream: Forbidden" in through[1]


async def test_another_uid(both: Both) -> None:
    """RIGHT["another pod's UID"]."""
    uids = [
        (await get_pod(side.cluster, "talker", side.namespace))["metadata"]["uid"]
        for side in (both.direct, both.through)
    ]
    query = "main?command=true&output=1"
    for side, uid in zip((both.direct, both.through), uids, strict=True):
        request: Request = ("POST", f"/exec/{{ns}}/talker/{uid}/{query}", _SPDY)
        assert await _ask(side, "admin", request) == (101, "")
    direct, through = await _ask_both(
        both, "admin", ("POST", f"/exec/{{ns}}/talker/other-uid/{query}", _SPDY)
    )
    assert (direct, through) == ((101, ""), (404, "pod does not exist"))


@pytest.mark.parametrize(
    "path",
    [
        "/pods", "/runningpods/", "/stats/summary", "/metrics", "/metrics/cadvisor",
        "/metrics/resource",
    ],
)  # fmt: skip
async def test_kinds(both: Both, path: str) -> None:
    """What machines read is of the same kind."""
    kinds = []
    for side in (both.direct, both.through):
        tls = _build_tls(side.cluster, side.cluster.admin_kubeconfig)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{await side.find_kubelet()}{path}", ssl=tls) as response,
        ):
            kind = response.headers["Content-Type"].replace(" ", "").split(";escaping=")[0]
            kinds.append((response.status, kind))
    direct, through = kinds
    assert through == direct


@pytest.mark.parametrize("path", ["/containerLogs/{ns}/ended/main", _EXEC, "/pods"])
@pytest.mark.parametrize("user", ["nobody", "someone"])
async def test_who_has_no_right(both: Both, user: str, path: str) -> None:
    direct, through = await _ask_both(both, user, ("GET", path, {}))
    assert direct[0] == (401 if user == "nobody" else 403)
    assert through == direct


async def test_who_may_only_read(both: Both) -> None:
    """RIGHT["create"]."""
    user = "reader"
    for side in (both.direct, both.through):
        await create(
            side.cluster,
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": user},
                "rules": [{"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]}],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": user},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": user,
                },
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
                ],
            },
        )
    logs: Request = ("GET", "/containerLogs/{ns}/ended/main", {})
    direct, through = await _ask_both(both, user, logs)
    assert through == direct == (200, "bye")
    websocket = {**_WEBSOCKET, "Sec-WebSocket-Protocol": "v5.channel.k8s.io"}
    direct, through = await _ask_both(both, user, ("GET", _EXEC, websocket))
    assert direct == (101, "")
    assert through[0] == 403


PROXIED: Sequence[str] = (
    "healthz",
    "containerLogs/{ns}/ended/main",
    "containerLogs/{ns}/none/main",
    "containerLogs/{ns}/talker/main?tailLines=1",
    "exec/{ns}/talker/main?command=true&output=1",
    "none",
)


@pytest.mark.parametrize("path", PROXIED)
async def test_by_the_api_server(both: Both, path: str) -> None:
    """The same, by the API server's proxy of the Node."""
    direct, through = await both.run("get", "--raw", f"/api/v1/nodes/{{node}}/proxy/{path}")
    assert through == direct
