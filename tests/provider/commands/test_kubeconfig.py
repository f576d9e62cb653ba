"""Kubeconfigs of service accounts."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from provider.checks import Duration
from provider.commands.kubeconfig import (
    KubeconfigOptions,
    build_kubeconfig,
    describe,
    main,
    make_kubeconfig,
)
from provider.errors import StartError
from tests.fakes.api_server import ApiCall, FakeApiServer
from vkubelet.kube.access import ServerTrust, load_kubeconfig
from vkubelet.kube.objects import KubeObject, NamespacedName

NOW = datetime(2027, 1, 1, 12, 0, tzinfo=UTC)
TRUST = ServerTrust("https://api.example:6443", b"PEM", insecure=False, server_name=None)


def options(**changes: Any) -> KubeconfigOptions:
    given: dict[str, Any] = {
        "account": NamespacedName("vk", "cloud"),
        "duration": Duration(3600),
        **changes,
    }
    return KubeconfigOptions(**given)


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    def issue(call: ApiCall) -> KubeObject:
        status = {"token": "t0ken", "expirationTimestamp": "2027-01-01T13:00:00Z"}
        return {**call.body, "status": status}

    async with FakeApiServer() as fake:
        fake.handle("create serviceaccounts/token", issue)
        yield fake


async def test_printed(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert await make_kubeconfig(options(kubeconfig=server.write_kubeconfig())) == 0
    printed = capsys.readouterr()
    made = yaml.safe_load(printed.out)
    assert made["users"] == [{"name": "cloud", "user": {"token": "t0ken"}}]
    assert made["clusters"][0]["cluster"] == {"server": server.url}
    assert "t0ken" not in printed.err
    (call,) = server.calls("create serviceaccounts/token")
    assert call.body["spec"] == {"expirationSeconds": 3600}


async def test_written_as_a_whole_and_for_its_owner_only(
    server: FakeApiServer, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "remote.kubeconfig"
    await make_kubeconfig(options(kubeconfig=server.write_kubeconfig(), out=out))
    assert out.stat().st_mode & 0o777 == 0o600
    access = await load_kubeconfig(out, None, allow_exec=False, allow_outside_files=False)
    assert (await access.connection()).headers["Authorization"] == "Bearer t0ken"
    with pytest.raises(StartError, match=r"--out .*can't be written"):
        await make_kubeconfig(options(kubeconfig=server.write_kubeconfig(), out=tmp_path))


async def test_bound_to_a_secret(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    metadata = {"name": "access", "namespace": "vk", "uid": "u1"}
    server.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    config = server.write_kubeconfig()
    await make_kubeconfig(options(kubeconfig=config, bound_secret="access"))
    (call,) = server.calls("create serviceaccounts/token")
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "access", "uid": "u1"}
    assert call.body["spec"]["boundObjectRef"] == reference
    with pytest.raises(StartError, match="does the service account exist"):
        await make_kubeconfig(options(kubeconfig=config, bound_secret="none"))


def test_server_authority_and_name_are_handed_on() -> None:
    trust = ServerTrust("https://10.0.0.1", b"PEM", insecure=False, server_name="api.example")
    made = build_kubeconfig(trust, options(server="https://public:6443"), "t0ken")
    assert made["clusters"][0]["cluster"] == {
        "server": "https://public:6443",
        "certificate-authority-data": "UEVN",
        "tls-server-name": "api.example",
    }
    assert made["contexts"][0]["context"]["namespace"] == "vk"
    assert made["current-context"] == "cloud"


def test_an_api_server_that_is_not_verified(tmp_path: Path) -> None:
    cluster = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    config = {
        "clusters": [{"name": "a", "cluster": cluster}],
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "current-context": "a",
    }
    file = tmp_path / "config"
    file.write_text(json.dumps(config))
    with pytest.raises(StartError, match="doesn't verify the API server"):
        main(options(kubeconfig=file))
    with pytest.raises(StartError, match="/none"):
        main(options(kubeconfig=Path("/none")))


@pytest.mark.parametrize(
    ("lasts", "server", "said"),
    [
        (3600, None, ["the token lasts until 2027-01-01T13:00:00Z; make the next one before"]),
        (
            600,
            None,
            ["the token lasts until 2027-01-01T12:10:00Z, as the server allows no longer;"],
        ),
        (3600, "https://127.0.0.1:6443", ["the token", "the server 127.0.0.1 can't be reached"]),
        (3600, "https://localhost", ["the token", "the server localhost can't be reached"]),
    ],
)
def test_what_is_said_of_it(lasts: int, server: str | None, said: list[str]) -> None:
    expires = NOW + timedelta(seconds=lasts)
    lines = describe(TRUST, options(server=server), expires, NOW)
    assert len(lines) == len(said)
    assert all(line.startswith(text) for line, text in zip(lines, said, strict=True))
