import asyncio
import base64
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.vkubelet.kube.certificates import Authority, server_context
from tests.vkubelet.kube.serving import (
    connect,
    kubeconfig,
    replace_file,
    serve,
    write_kubeconfig,
)
from vkubelet.kube.access import (
    CHECK_SECONDS,
    ClusterAccess,
    in_cluster_namespace,
    load_in_cluster,
    load_kubeconfig,
)
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import AccessError, UnreachableError

SERVER = "http://127.0.0.1:1"


def data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


async def authorization(access: ClusterAccess) -> str:
    return (await access.connection()).headers.get("Authorization", "")


async def pass_time() -> None:
    """Let the next check of the files come, in virtual time."""
    await asyncio.sleep(CHECK_SECONDS + 0.1)


async def test_server_and_authority_without_credentials(tmp_path: Path) -> None:
    authority = Authority()
    cluster = {
        "certificate-authority-data": data(authority.pem),
        "tls-server-name": "api.example",
    }
    path = write_kubeconfig(tmp_path / "config", "https://127.0.0.1:1", cluster=cluster)
    trust = (await load_kubeconfig(path, None)).trust
    assert (trust.server, trust.server_name) == ("https://127.0.0.1:1", "api.example")
    assert (trust.authority, trust.insecure) == (authority.pem, False)


@pytest.mark.virtual_time
async def test_rotated_token_in_the_kubeconfig(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", SERVER, user={"token": "one"})
    access = await load_kubeconfig(path, None)
    first = await access.connection()
    write_kubeconfig(path, SERVER + "2", user={"token": "two"})
    assert await access.connection() is first, "not looked at each time"
    await pass_time()
    assert await authorization(access) == "Bearer two"
    assert access.server == SERVER + "2"


@pytest.mark.virtual_time
async def test_rotated_token_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    path = write_kubeconfig(tmp_path / "config", SERVER, user={"tokenFile": "token"})
    access = await load_kubeconfig(path, None)
    assert await authorization(access) == "Bearer one"
    (tmp_path / "token").write_text("two")
    await pass_time()
    assert await authorization(access) == "Bearer two"


async def test_refused_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    path = write_kubeconfig(tmp_path / "config", SERVER, user={"tokenFile": "token"})
    access = await load_kubeconfig(path, None)
    rejected = await access.connection()
    replace_file(tmp_path / "token", "two")
    renewed = await access.renew(rejected)
    assert renewed.headers["Authorization"] == "Bearer two"
    assert await access.renew(rejected) is renewed, "somebody else has renewed it"
    assert await access.renew(renewed) is renewed, "there is nothing newer"


def swap(mount: Path, version: str, files: dict[str, str]) -> None:
    """Publish files as the kubelet does for a Secret volume."""
    folder = mount / f"..{version}"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
        if not (mount / name).is_symlink():
            (mount / name).symlink_to(f"..data/{name}")
    (mount / "..data_tmp").symlink_to(folder.name)
    (mount / "..data_tmp").rename(mount / "..data")


@pytest.mark.virtual_time
@pytest.mark.parametrize("allow_outside_files", [True, False])
async def test_secret_mount_that_swaps_its_links(
    tmp_path: Path, *, allow_outside_files: bool
) -> None:
    text = json.dumps(kubeconfig(SERVER, user={"tokenFile": "token"}))
    swap(tmp_path, "v1", {"kubeconfig": text, "token": "one"})
    access = await load_kubeconfig(
        tmp_path / "kubeconfig", None, allow_exec=False, allow_outside_files=allow_outside_files
    )
    assert await authorization(access) == "Bearer one"
    swap(tmp_path, "v2", {"kubeconfig": text, "token": "two"})
    await pass_time()
    assert await authorization(access) == "Bearer two"


def exec_user(tmp_path: Path) -> dict[str, Any]:
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/true"}}


def outside_user(tmp_path: Path) -> dict[str, Any]:
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "token").write_text("home's token")
    return {"tokenFile": str(other / "token")}


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (lambda _: "{", "isn't YAML"),
        (lambda _: "", "no current-context"),
        (lambda _: json.dumps(kubeconfig("ftp://x")), "isn't an http or https URL"),
        (lambda path: json.dumps(kubeconfig(SERVER, user=exec_user(path))), "isn't allowed"),
        (lambda path: json.dumps(kubeconfig(SERVER, user=outside_user(path))), "isn't allowed"),
        (lambda _: None, "No such file"),
    ],
)
async def test_file_that_turns_bad_is_warned_of_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    bad: Callable[[Path], str | None],
    complaint: str,
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    path = write_kubeconfig(folder / "config", SERVER, user={"token": "one"})
    access = await load_kubeconfig(path, None, allow_exec=False, allow_outside_files=False)
    first = await access.connection()
    text = bad(tmp_path)
    if text is None:
        path.unlink()
    else:
        replace_file(path, text)
    for _ in range(3):
        await pass_time()
        assert await access.connection() is first
        assert await access.renew(first) is first
    write_kubeconfig(path, SERVER, user={"token": "two"})
    await pass_time()
    assert await authorization(access) == "Bearer two"
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert complaint in warnings[0]
    assert str(path) in warnings[0]
    assert "home's token" not in caplog.text


def plugin(tmp_path: Path) -> dict[str, Any]:
    """An exec plugin that counts its runs and prints the file `answer`."""
    script = tmp_path / "plugin"
    script.write_text('#!/bin/sh\ncd "$(dirname "$0")" || exit 9\necho >>runs\ncat answer\n')
    script.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}}


def write_answer(tmp_path: Path, **status: str) -> None:
    document = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }
    replace_file(tmp_path / "answer", json.dumps(document))


def runs(tmp_path: Path) -> int:
    return (tmp_path / "runs").read_text().count("\n")


async def test_exec_plugin_is_asked_when_its_token_is_refused(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", SERVER, user=plugin(tmp_path))
    write_answer(tmp_path, token="one")
    access = await load_kubeconfig(path, None)
    first = await access.connection()
    assert first.headers["Authorization"] == "Bearer one"
    assert runs(tmp_path) == 1
    # Given a moment ago and refused already: the plugin isn't started for each such request.
    assert await access.renew(first) is first
    assert runs(tmp_path) == 1


async def test_exec_plugin_is_asked_when_its_token_ends(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", SERVER, user=plugin(tmp_path))
    write_answer(tmp_path, token="one", expirationTimestamp="2020-01-01T00:00:00Z")
    access = await load_kubeconfig(path, None)
    assert await authorization(access) == "Bearer one"
    write_kubeconfig(path, SERVER + "2", user=plugin(tmp_path))
    write_answer(tmp_path, token="two", expirationTimestamp="2120-01-01T00:00:00Z")
    renewed = await access.renew(await access.connection())
    assert renewed.headers["Authorization"] == "Bearer two"
    assert renewed.server == SERVER + "2"


async def test_exec_plugin_that_gives_nothing(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", SERVER, user=plugin(tmp_path))
    with pytest.raises(AccessError, match=r"config, context 'main': exec .*No such file"):
        await load_kubeconfig(path, None)


async def test_client_certificates(tmp_path: Path) -> None:
    authority = Authority()
    seen: list[object] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert")
        seen.append(certificate["subject"][0][0][1] if certificate else None)
        return web.json_response({})

    def user(name: str) -> dict[str, str]:
        issued = authority.issue(name)
        return {
            "client-certificate-data": data(issued.certificate),
            "client-key-data": data(issued.key),
        }

    cluster = {"certificate-authority-data": data(authority.pem)}
    async with serve(answer, server_context(authority, tmp_path)) as url:
        path = write_kubeconfig(tmp_path / "config", url, user=user("one"), cluster=cluster)
        access = await load_kubeconfig(path, None)
        async with KubeClient(access, name="home") as client:
            await client.get_bytes("/")
            before = await access.connection()
            user_two = user("two")
            write_kubeconfig(path, url, user=user_two, cluster=cluster)
            after = await access.renew(before)
            assert after.ssl is not before.ssl
            await client.get_bytes("/")
            write_kubeconfig(path, url, user={**user_two, "token": "t"}, cluster=cluster)
            with_token = await access.renew(after)
            assert with_token.headers["Authorization"] == "Bearer t"
            assert with_token.ssl is after.ssl, "open connections stay in use"
    assert seen == ["one", "two"]


async def test_client_certificate_by_exec_plugin(tmp_path: Path) -> None:
    authority = Authority()
    issued = authority.issue("plugged")

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert")
        return web.json_response(certificate["subject"][0][0][1])

    write_answer(
        tmp_path,
        clientCertificateData=issued.certificate.decode(),
        clientKeyData=issued.key.decode(),
    )
    async with (
        serve(answer, server_context(authority, tmp_path)) as url,
        connect(
            tmp_path,
            url,
            user=plugin(tmp_path),
            cluster={"certificate-authority-data": data(authority.pem)},
        ) as client,
    ):
        assert await client.get_bytes("/") == b'"plugged"'


@pytest.mark.parametrize(
    ("cluster", "works"),
    [
        ({}, False),
        ({"insecure-skip-tls-verify": True}, True),
        ({"tls-server-name": "api.internal"}, True),
        ({"tls-server-name": "other.internal"}, False),
    ],
)
async def test_names_of_the_server(tmp_path: Path, cluster: dict[str, Any], *, works: bool) -> None:
    authority = Authority()

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    async with (
        serve(answer, server_context(authority, tmp_path, "api.internal")) as url,
        connect(
            tmp_path,
            url,
            cluster={"certificate-authority-data": data(authority.pem), **cluster},
        ) as client,
    ):
        if works:
            assert await client.get_bytes("/") == b"{}"
        else:
            with pytest.raises(UnreachableError, match="its certificate isn't accepted"):
                await client.get_bytes("/")


async def test_proxy(tmp_path: Path) -> None:
    seen = []

    async def proxy(request: web.Request) -> web.Response:
        seen.append((request.raw_path, request.headers.get("Proxy-Authorization")))
        return web.json_response({})

    async with serve(proxy) as url:
        with_user = url.replace("http://", "http://me:pass@")
        cluster = {"proxy-url": with_user}
        async with connect(tmp_path, "http://api.invalid:8080", cluster=cluster) as client:
            await client.get_bytes("/livez")
    [(path, credentials)] = seen
    assert path == "http://api.invalid:8080/livez"
    assert credentials == "Basic " + data(b"me:pass")


@asynccontextmanager
async def connect_proxy(connects: list[str]) -> AsyncIterator[str]:
    """A proxy for TLS: passes bytes on between the client and where it wants to go."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        target = head.split()[1].decode()
        connects.append(target)
        host, _, port = target.rpartition(":")
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, upstream_writer))
            group.create_task(pump(upstream_reader, writer))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_tls_through_a_proxy(tmp_path: Path) -> None:
    authority = Authority()
    connects: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        if "Upgrade" not in request.headers:
            return web.json_response({})
        opened = web.WebSocketResponse(protocols=("v5",))
        await opened.prepare(request)
        await opened.send_str("hello")
        return opened

    async with (
        connect_proxy(connects) as proxy,
        serve(answer, server_context(authority, tmp_path, "api.internal")) as url,
        connect(
            tmp_path,
            url,
            cluster={
                "certificate-authority-data": data(authority.pem),
                "tls-server-name": "api.internal",
                "proxy-url": proxy,
            },
        ) as client,
    ):
        assert await client.get_bytes("/") == b"{}"
        async with client.connect_websocket("/exec", [], protocols=["v5"]) as opened:
            assert await opened.receive_str() == "hello"
    assert connects == [url.removeprefix("https://")] * 2


async def test_proxy_that_is_down(tmp_path: Path) -> None:
    cluster = {"proxy-url": "http://me:pass@127.0.0.1:1"}
    async with connect(tmp_path, "http://api.invalid", cluster=cluster) as client:
        with pytest.raises(UnreachableError, match="the proxy can't be reached") as caught:
            await client.get_bytes("/livez")
    assert "pass" not in str(caught.value)


async def test_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / ".kube"
    home.mkdir()
    write_kubeconfig(home / "config", SERVER + "/default")
    listed = write_kubeconfig(tmp_path / "listed", SERVER + "/listed")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert (await load_kubeconfig(None, None)).server.endswith("/default")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}{os.pathsep}{listed}")
    assert (await load_kubeconfig(None, None)).server.endswith("/listed")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(AccessError, match=r"kubeconfig .*missing: no such file"):
        await load_kubeconfig(None, None)
    with pytest.raises(AccessError, match=r"nowhere: No such file"):
        await load_kubeconfig(tmp_path / "nowhere", None)


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    swap(tmp_path, "v1", {"token": "one", "ca.crt": Authority().pem.decode(), "namespace": "sys\n"})
    return tmp_path


@pytest.mark.virtual_time
async def test_in_cluster(service_account: Path) -> None:
    access = load_in_cluster(service_account)
    assert access.server == "https://[fd00::1]:443"
    assert await authorization(access) == "Bearer one"
    assert in_cluster_namespace(service_account) == "sys"
    ca = (service_account / "ca.crt").read_text()
    swap(service_account, "v2", {"token": "two", "ca.crt": ca})
    await pass_time()
    assert await authorization(access) == "Bearer two"
    assert in_cluster_namespace(service_account) is None


def test_not_in_a_cluster(
    service_account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (service_account / "..v1" / "token").write_text(" \n")
    with pytest.raises(AccessError, match="token file is empty"):
        load_in_cluster(service_account)
    with pytest.raises(AccessError, match="No such file"):
        load_in_cluster(tmp_path / "none")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(AccessError, match="not in a cluster"):
        load_in_cluster(service_account)
