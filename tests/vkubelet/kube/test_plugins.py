import base64
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from vkubelet.kube.errors import AccessError
from vkubelet.kube.kubeconfig import PluginSettings
from vkubelet.kube.plugins import CredentialPlugin, PluginCredentials

VERSION = "client.authentication.k8s.io/v1"


async def run_exec(folder: Path, script: str, **section: Any) -> PluginCredentials:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    config = {"apiVersion": VERSION, "command": "./plugin", **section}
    return await CredentialPlugin(PluginSettings(kind="exec", config=config, folder=folder)).run()


def answering(status: object, **more: object) -> str:
    document = {"apiVersion": VERSION, "kind": "ExecCredential", "status": status, **more}
    return f"cat <<'END'\n{json.dumps(document)}\nEND"


async def test_token_that_ends(tmp_path: Path) -> None:
    status = {"token": " s3cret\n", "expirationTimestamp": "2030-01-02T03:04:05Z"}
    credentials = await run_exec(tmp_path, answering(status))
    assert credentials == PluginCredentials(authorization="Bearer s3cret", expires_at=1893553445.0)
    assert "s3cret" not in repr(credentials)


async def test_certificate(tmp_path: Path) -> None:
    status = {"clientCertificateData": "cert", "clientKeyData": "key"}
    credentials = await run_exec(tmp_path, answering(status))
    assert (credentials.certificate, credentials.key) == (b"cert", b"key")
    assert credentials.authorization == ""
    assert credentials.expires_at is None


async def test_arguments_and_environment(tmp_path: Path) -> None:
    script = f"""
    test "$1 $2 $WHO" = "get token me" || exit 3
    case "$KUBERNETES_EXEC_INFO" in *ExecCredential*) ;; *) exit 4 ;; esac
    {answering({"token": "t"})}"""
    credentials = await run_exec(
        tmp_path, script, args=["get", "token"], env=[{"name": "WHO", "value": "me"}]
    )
    assert credentials.authorization == "Bearer t"


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo not today >&2; exit 7", "process returned 7. not today"),
        ("echo nonsense", "failed to decode"),
        ("echo '[]'", "missing key"),
        ("echo '{}'", "missing key"),
        ("echo 7", "exec gave no credentials"),
        (answering(None), "holds no status"),
        (answering({}), "neither token nor client certificate"),
        (answering({"token": 7}), "aren't text"),
        (answering({"token": "a\nb"}), "no header can carry"),
        (answering({"clientKeyData": "k"}), "only work together"),
        (answering({"token": "t", "expirationTimestamp": "soon"}), "isn't a time"),
        (answering({"token": "t"}, apiVersion="v0"), "does not match"),
    ],
)
async def test_plugins_that_fail(tmp_path: Path, script: str, complaint: str) -> None:
    with pytest.raises(AccessError, match="exec") as caught:
        await run_exec(tmp_path, script)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"command": "/no/such/plugin"}, "'/no/such/plugin': No such file"),
        ({"command": "no-such-plugin-anywhere"}, "No such file"),
        ({"command": ""}, "has no command"),
        ({"command": 7}, "has no command"),
        ({"args": "text"}, "exec"),
        ({"env": [{"name": "a"}]}, "exec"),
    ],
)
async def test_sections_that_are_no_use(
    tmp_path: Path, section: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(AccessError, match="exec") as caught:
        await run_exec(tmp_path, answering({"token": "t"}), **section)
    assert complaint in str(caught.value)


async def ask_provider(config: dict[str, Any]) -> PluginCredentials:
    settings = PluginSettings(kind="auth-provider", config=config, folder=Path())
    return await CredentialPlugin(settings).run()


@pytest.mark.filterwarnings("ignore:datetime.datetime.utc")  # the library's, from Python 3.12 on
async def test_auth_provider() -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4102444800}).encode()).decode()
    token = f"head.{claims.rstrip('=')}.signature"
    credentials = await ask_provider({"name": "oidc", "config": {"id-token": token}})
    assert credentials.authorization == f"Bearer {token}"
    assert credentials.expires_at is not None
    assert credentials.expires_at > time.time()


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"name": "azure"}, "'azure' isn't supported"),
        ({"name": "oidc"}, "missing configuration"),
        ({"name": "oidc", "config": {"id-token": "nonsense"}}, "period-delimited"),
    ],
)
async def test_auth_providers_that_fail(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(AccessError, match=complaint):
        await ask_provider(config)


def test_the_library_is_imported_only_when_needed() -> None:
    code = (
        "import sys, vkubelet.kube.client, vkubelet.kube.events;"
        "sys.exit('kubernetes_asyncio' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
