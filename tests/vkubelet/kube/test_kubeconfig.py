import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.vkubelet.kube.serving import kubeconfig
from vkubelet.kube.errors import AccessError
from vkubelet.kube.kubeconfig import ClusterSettings, FileRules, read_kubeconfig

SERVER = "https://api.example:6443"
STRICT = FileRules(allow_exec=False, allow_outside_files=False)


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def read(
    tmp_path: Path,
    text: str | dict[str, Any],
    *,
    context: str | None = None,
    rules: FileRules = FileRules(),  # noqa: B008 - frozen
) -> ClusterSettings:
    path = tmp_path / "config"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return read_kubeconfig([path], context, rules, all_must_exist=True)


def refusal(tmp_path: Path, text: str | dict[str, Any], **options: Any) -> str:
    with pytest.raises(AccessError) as caught:
        read(tmp_path, text, **options)
    message = str(caught.value)
    assert str(tmp_path / "config") in message
    assert "\n" not in message
    assert "s3cret" not in message
    return message


def test_inline_data(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        kubeconfig(
            SERVER + "/",
            user={"client-certificate-data": data("cert"), "client-key-data": data("key")},
            cluster={
                "certificate-authority-data": data("ca"),
                "tls-server-name": "other",
                "proxy-url": "http://proxy:3128",
            },
        ),
    )
    assert settings.server == SERVER
    assert settings.server_hostname == "other"
    assert settings.proxy == "http://proxy:3128"
    assert settings.tls.ca == b"ca"
    assert (settings.tls.certificate, settings.tls.key) == (b"cert", b"key")
    assert settings.headers == ()
    assert settings.plugin is None


def test_files_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "certs").mkdir()
    for name in ("ca", "certificate", "key"):
        (tmp_path / "certs" / name).write_text(name)
    (tmp_path / "token").write_text(" from the file\n")
    settings = read(
        tmp_path,
        kubeconfig(
            SERVER,
            user={
                "client-certificate": "certs/certificate",
                "client-key": str(tmp_path / "certs" / "key"),
                "token": "inline",
                "tokenFile": "token",
            },
            cluster={"certificate-authority": "./certs/ca"},
        ),
        rules=STRICT,
    )
    assert settings.tls.ca == b"ca"
    assert (settings.tls.certificate, settings.tls.key) == (b"certificate", b"key")
    assert settings.headers == (("Authorization", "Bearer from the file"),)
    names = {path.relative_to(tmp_path).as_posix() for path in settings.stamps}
    assert names == {"config", "token", "certs/ca", "certs/certificate", "certs/key"}


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        ({}, ()),
        ({"token": "t"}, (("Authorization", "Bearer t"),)),
        ({"username": "u", "password": "p"}, (("Authorization", "Basic dTpw"),)),
        (
            {
                "as": "jane",
                "as-uid": "7",
                "as-groups": ["a", "b"],
                "as-user-extra": {"Scope/x": ["c"]},
            },
            (
                ("Impersonate-User", "jane"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Group", "a"),
                ("Impersonate-Group", "b"),
                ("Impersonate-Extra-scope%2Fx", "c"),
            ),
        ),
    ],
)
def test_headers(
    tmp_path: Path, user: dict[str, Any], headers: tuple[tuple[str, str], ...]
) -> None:
    assert read(tmp_path, kubeconfig(SERVER, user=user)).headers == headers


def test_plugins(tmp_path: Path) -> None:
    section = {"command": "aws", "apiVersion": "v1"}
    settings = read(tmp_path, kubeconfig(SERVER, user={"exec": section}))
    assert settings.plugin is not None
    assert (settings.plugin.kind, settings.plugin.config) == ("exec", section)
    assert settings.plugin.folder == tmp_path
    provider = read(tmp_path, kubeconfig(SERVER, user={"auth-provider": {"name": "oidc"}}))
    assert provider.plugin is not None
    assert provider.plugin.kind == "auth-provider"
    both = read(tmp_path, kubeconfig(SERVER, user={"exec": section, "token": "t"}))
    assert both.plugin is None, "what is written in the file wins"


def test_contexts(tmp_path: Path) -> None:
    document = kubeconfig(SERVER)
    document["contexts"].append({"name": "anonymous", "context": {"cluster": "main"}})
    assert read(tmp_path, document, context="anonymous").headers == ()
    assert "has no context 'other'; there are: anonymous, main" in refusal(
        tmp_path, document, context="other"
    )


def test_first_of_several_files_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "one" / "config", tmp_path / "two" / "config"
    for path, name in ((first, "one"), (second, "two")):
        path.parent.mkdir()
        (path.parent / "token").write_text(name)
        path.write_text(json.dumps(kubeconfig(f"https://{name}", user={"tokenFile": "token"})))
    missing = tmp_path / "missing"
    settings = read_kubeconfig([missing, second, first], None, FileRules(), all_must_exist=False)
    assert settings.server == "https://two"
    assert settings.headers == (("Authorization", "Bearer two"),)
    assert settings.stamps[missing] is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no current-context; there are no contexts at all"),
        ("users: [\ntoken: s3cret: x", "isn't YAML in line 2"),
        ("users:\n\ttoken: s3cret", "isn't YAML in line 2"),
        ("!!python/object:os.system s3cret", "isn't YAML in line 1"),
        ("\x00s3cret", "isn't YAML"),
        ("[" * 5000, "isn't YAML"),
        ("s3cret", "isn't a kubeconfig: Expected `object`, got `str`"),
        ("- s3cret", "isn't a kubeconfig"),
        ("users: s3cret", "isn't a kubeconfig: Expected `array"),
        ("users: [{user: {token: s3cret}}]", "missing required field `name`"),
        ("users: [{name: a, user: {token: [s3cret]}}]", "$.users[0].user.token"),
        ("current-context: a\ncontexts: null", "has no context 'a'; there are no contexts at all"),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: c}}]",
            "context 'a': there is no cluster 'c'",
        ),
        (
            (
                "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
                "clusters: [{name: c, cluster: {server: 'https://x'}}]"
            ),
            "context 'a': there is no user 'u'",
        ),
    ],
)
def test_files_that_are_no_use(tmp_path: Path, text: str, complaint: str) -> None:
    assert complaint in refusal(tmp_path, text)


@pytest.mark.parametrize(
    "server",
    ["", "api.example", "ftp://x", "https://", "https://x:99999", "https://[::1", "http://a b"],
)
def test_servers_that_are_none(tmp_path: Path, server: str) -> None:
    assert "the server" in refusal(tmp_path, kubeconfig(server))


@pytest.mark.parametrize("server", ["https://u:s3cret@x", "https://x?s3cret", "https://x#s3cret"])
def test_servers_that_hold_secrets(tmp_path: Path, server: str) -> None:
    assert "may hold no credentials" in refusal(tmp_path, kubeconfig(server))


@pytest.mark.parametrize(
    ("sections", "complaint"),
    [
        ({"user": {"client-key-data": "s3cret!"}}, "client-key-data isn't base64"),
        ({"user": {"client-key-data": data("s3cret")}}, "only work together"),
        ({"user": {"client-certificate": "nowhere"}}, "client-certificate: "),
        ({"user": {"tokenFile": "."}}, "tokenFile: "),
        ({"user": {"tokenFile": "a\0b"}}, "tokenFile: not a path"),
        ({"user": {"token": "s3cret\nX-Remote-User: admin"}}, "no header can carry"),
        ({"user": {"token": "s3crét"}}, "no header can carry"),
        ({"user": {"as-groups": ["a"]}}, "only work together with as"),
        ({"cluster": {"proxy-url": "socks5://u:s3cret@x:1"}}, "not 'socks5'"),
        ({"cluster": {"proxy-url": "http://u:s3cret@x:99999"}}, "proxy-url isn't a URL"),
        ({"cluster": {"proxy-url": "http://"}}, "proxy-url"),
    ],
)
def test_entries_that_are_no_use(
    tmp_path: Path, sections: dict[str, dict[str, Any]], complaint: str
) -> None:
    message = refusal(tmp_path, kubeconfig(SERVER, **sections))
    assert f"context 'main': {complaint}" in message or complaint in message


def test_empty_token_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    message = refusal(tmp_path, kubeconfig(SERVER, user={"tokenFile": "token"}))
    assert "tokenFile token is empty" in message


@pytest.mark.parametrize("section", ["exec", "auth-provider"])
def test_plugins_of_a_foreign_kubeconfig(tmp_path: Path, section: str) -> None:
    # Also beside a token that would make it unused: a rotation could take that away.
    user = {section: {"command": "s3cret"}, "token": "s3cret"}
    message = refusal(tmp_path, kubeconfig(SERVER, user=user), rules=STRICT)
    assert "context 'main'" in message
    assert f"section {section!r}" in message or section in message


@pytest.mark.parametrize(
    "sections",
    [
        {"user": {"tokenFile": "../secret"}},
        {"user": {"tokenFile": "link"}},
        {"user": {"tokenFile": "folder/../../secret"}},
        {"user": {"client-certificate": "../secret"}},
        {"user": {"client-key": "../secret"}},
        {"user": {"tokenFile": "/proc/self/environ"}},
        {"cluster": {"certificate-authority": "/etc/hostname"}},
    ],
)
def test_files_outside_the_folder_of_a_foreign_kubeconfig(
    tmp_path: Path, sections: dict[str, dict[str, Any]]
) -> None:
    own = tmp_path / "own"
    (own / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_text("s3cret")
    (own / "link").symlink_to("../secret")
    message = refusal(own, kubeconfig(SERVER, **sections), rules=STRICT)
    assert "outside the kubeconfig's own folder" in message


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    user = {
        "token": "s3cret",
        "client-certificate-data": data("c"),
        "client-key-data": data("s3cret"),
    }
    cluster = {"proxy-url": "http://u:s3cret@proxy"}
    assert "s3cret" not in repr(read(tmp_path, kubeconfig(SERVER, user=user, cluster=cluster)))
