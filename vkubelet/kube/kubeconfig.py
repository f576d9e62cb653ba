"""Kubeconfig files: read, merged, one context resolved; nothing is run and no server is asked."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import yaml

from vkubelet.kube.errors import AccessError
from vkubelet.kube.files import FileReader, Stamp, check_inside
from vkubelet.kube.tls import TlsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRules:
    """What a kubeconfig may make us do; one that comes from somebody else may do less."""

    allow_exec: bool = True
    allow_outside_files: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSettings:
    """
    An exec plugin or auth provider that has to be asked for credentials.

    Attributes:
        kind: "exec" or "auth-provider".
        config: That section of the user.
        folder: The kubeconfig's folder: relative commands start there.
    """

    kind: str
    config: Mapping[str, Any] = field(repr=False)
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """
    One context with all its files read.

    Attributes:
        source: Where it comes from, for messages.
        headers: Authorization (unless a plugin gives it) and impersonation.
        stamps: The files that were read, as they were just before.
    """

    source: str
    server: str
    tls: TlsSettings
    server_hostname: str | None = None
    proxy: str | None = field(default=None, repr=False)
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)
    plugin: PluginSettings | None = None
    stamps: Mapping[Path, Stamp] = field(default_factory=dict)


# In pure Python some hundred KiB of brackets take minutes.
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None


class _User(msgspec.Struct, frozen=True, rename="kebab"):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    as_user: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None


class _Context(msgspec.Struct, frozen=True):
    cluster: str | None = None
    user: str | None = None


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _Context | None = None


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    contexts: list[_NamedContext] | None = None
    users: list[_NamedUser] | None = None


@dataclass(slots=True)
class _Merged:
    """Entries of all files, each with the folder of its relative paths; the first file wins."""

    current_context: str = ""
    clusters: dict[str, tuple[_Cluster, Path]] = field(default_factory=dict)
    users: dict[str, tuple[_User, Path]] = field(default_factory=dict)
    contexts: dict[str, _Context] = field(default_factory=dict)

    def add(self, file: _File, folder: Path) -> None:
        self.current_context = self.current_context or file.current_context or ""
        for cluster in file.clusters or ():
            self.clusters.setdefault(cluster.name, (cluster.cluster or _Cluster(), folder))
        for user in file.users or ():
            self.users.setdefault(user.name, (user.user or _User(), folder))
        for context in file.contexts or ():
            self.contexts.setdefault(context.name, context.context or _Context())


def read_kubeconfig(
    paths: Sequence[Path], context: str | None, rules: FileRules, *, all_must_exist: bool
) -> ClusterSettings:
    """
    Read kubeconfig files and resolve a context, None: the current one. Blocks on the files.

    Raises:
        AccessError: One sentence that names the file and what is wrong.
    """
    reader = FileReader()
    source = f"kubeconfig {':'.join(map(str, paths))}"
    merged = _Merged()
    found = False
    for path in paths:
        if not all_must_exist and not path.exists():
            reader.stamps[path] = None
            continue
        found = True
        content = reader.read(path, "kubeconfig")
        merged.add(_parse_file(content, path), path.absolute().parent)
    if not found:
        raise AccessError(f"{source}: no such file")
    name, entry = _find_context(merged, context, source)
    where = f"{source}, context {name!r}"
    if entry.cluster not in merged.clusters:
        raise AccessError(f"{where}: there is no cluster {entry.cluster!r}")
    if entry.user and entry.user not in merged.users:
        raise AccessError(f"{where}: there is no user {entry.user!r}")
    cluster, cluster_folder = merged.clusters[entry.cluster]
    user, user_folder = merged.users.get(entry.user or "", (_User(), Path()))
    try:
        return _Resolver(reader, rules, where).resolve(cluster, cluster_folder, user, user_folder)
    except AccessError as error:
        raise AccessError(f"{where}: {error}") from error


def _parse_file(content: bytes, path: Path) -> _File:
    try:
        document = yaml.load(content, _YAML_LOADER)  # noqa: S506 - a safe loader either way
        return msgspec.convert(document if document is not None else {}, _File, strict=False)
    except yaml.MarkedYAMLError as error:
        # The error's own text quotes the file, and with it secrets.
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise AccessError(f"kubeconfig {path} isn't YAML{line}: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        if isinstance(error, msgspec.ValidationError):
            raise AccessError(f"kubeconfig {path} isn't a kubeconfig: {error}") from None
        raise AccessError(f"kubeconfig {path} isn't YAML") from None


def _find_context(merged: _Merged, context: str | None, source: str) -> tuple[str, _Context]:
    name = context or merged.current_context
    if not name:
        raise AccessError(f"{source} has no current-context; {_known(merged.contexts)}")
    if name not in merged.contexts:
        raise AccessError(f"{source} has no context {name!r}; {_known(merged.contexts)}")
    return name, merged.contexts[name]


def _known(contexts: Mapping[str, _Context]) -> str:
    return (
        f"there are: {', '.join(sorted(contexts))}" if contexts else "there are no contexts at all"
    )


class _Resolver:
    """Turns a cluster and a user entry into settings, under the rules."""

    def __init__(self, reader: FileReader, rules: FileRules, source: str) -> None:
        self._reader = reader
        self._rules = rules
        self._source = source

    def resolve(
        self, cluster: _Cluster, cluster_folder: Path, user: _User, user_folder: Path
    ) -> ClusterSettings:
        server = check_server(cluster.server or "")
        certificate = self._data_or_file(
            "client-certificate", user.client_certificate_data, user.client_certificate, user_folder
        )
        key = self._data_or_file("client-key", user.client_key_data, user.client_key, user_folder)
        if (certificate is None) != (key is None):
            raise AccessError("client-certificate and client-key only work together")
        authorization = self._authorization(user, user_folder)
        plugin = self._plugin(user, user_folder)
        headers = _impersonation(user)
        if authorization:
            headers.append(("Authorization", authorization))
        return ClusterSettings(
            source=self._source,
            server=server,
            tls=TlsSettings(
                ca=self._data_or_file(
                    "certificate-authority",
                    cluster.certificate_authority_data,
                    cluster.certificate_authority,
                    cluster_folder,
                ),
                insecure=bool(cluster.insecure_skip_tls_verify),
                certificate=certificate,
                key=key,
            ),
            server_hostname=cluster.tls_server_name or None,
            proxy=_check_proxy(cluster.proxy_url),
            headers=tuple((name, check_header(name, value)) for name, value in headers),
            # Like client-go: what is written in the file wins over what a plugin says.
            plugin=None if authorization or certificate else plugin,
            stamps=self._reader.stamps,
        )

    def _authorization(self, user: _User, folder: Path) -> str:
        if user.token_file:
            token = self._read("tokenFile", user.token_file, folder).decode(errors="replace")
            if not token.strip():
                raise AccessError(f"tokenFile {user.token_file} is empty")
            return f"Bearer {token.strip()}"
        if user.token:
            return f"Bearer {user.token.strip()}"
        if user.username:
            pair = f"{user.username}:{user.password or ''}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        return ""

    def _plugin(self, user: _User, folder: Path) -> PluginSettings | None:
        for kind, config in (("exec", user.exec), ("auth-provider", user.auth_provider)):
            if config is None:
                continue
            if not self._rules.allow_exec:
                raise AccessError(
                    f"the user has an {kind} section, which isn't allowed for this cluster"
                )
            return PluginSettings(kind=kind, config=config, folder=folder)
        return None

    def _data_or_file(
        self, what: str, data: str | None, path: str | None, folder: Path
    ) -> bytes | None:
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError):
                raise AccessError(f"{what}-data isn't base64") from None
        return self._read(what, path, folder) if path else None

    def _read(self, what: str, path: str, folder: Path) -> bytes:
        if "\0" in path:
            raise AccessError(f"{what}: not a path")
        target = folder / path
        if not self._rules.allow_outside_files:
            # The resolved file is read, yet it's the reference that must be watched: its links may
            # be swapped.
            self._reader.watch(target)
            target = check_inside(target, folder, what)
        return self._reader.read(target, what)


def check_server(server: str) -> str:
    """
    Check an API server's URL; a trailing slash goes.

    Raises:
        AccessError: If it's none.
    """
    try:
        url = urlsplit(server)
        usable = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        raise AccessError("the server isn't a URL") from None
    if "@" in url.netloc or url.query or url.fragment:
        raise AccessError("the server's URL may hold no credentials, query or fragment")
    if not usable or not server.isascii() or not server.isprintable() or " " in server:
        raise AccessError(f"the server {server!r} isn't an http or https URL")
    return server.rstrip("/")


def _check_proxy(proxy: str | None) -> str | None:
    if not proxy:
        return None
    try:
        url = urlsplit(proxy)
        usable = bool(url.hostname) and url.port != 0
    except ValueError:
        raise AccessError("proxy-url isn't a URL") from None
    if url.scheme not in {"http", "https"} or not usable:
        raise AccessError(
            f"proxy-url: only http and https proxies are supported, not {url.scheme!r}"
        )
    return proxy


def _impersonation(user: _User) -> list[tuple[str, str]]:
    if not user.as_user:
        if user.as_uid or user.as_groups or user.as_user_extra:
            raise AccessError("as-uid, as-groups and as-user-extra only work together with as")
        return []
    headers = [("Impersonate-User", user.as_user)]
    if user.as_uid:
        headers.append(("Impersonate-Uid", user.as_uid))
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    for key, values in (user.as_user_extra or {}).items():
        name = f"Impersonate-Extra-{quote(key.lower(), safe='')}"
        headers += [(name, value) for value in values]
    return headers


def check_header(name: str, value: str) -> str:
    """
    Check that a header can carry a value.

    Raises:
        AccessError: If not; the value, which may be a secret, isn't shown.
    """
    if not value.isascii() or not value.isprintable():
        raise AccessError(f"{name}: the value holds characters that no header can carry")
    return value
