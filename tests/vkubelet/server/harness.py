"""A node's port over real TLS on loopback, with the API server's reviews answered by a fake."""

import datetime
import ipaddress
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.fakes.api_server import ApiCall, FakeApiServer
from vkubelet.interface import (
    ByteStream,
    CommandStreams,
    ExitStatus,
    LogOptions,
    NodeUsage,
    PodRef,
    ServingCertificate,
    StatusEvent,
    VirtualNode,
)
from vkubelet.kube.objects import CachedObject, KubeObject, decode_cached, encode_object
from vkubelet.server.authentication import Authenticator
from vkubelet.server.authorization import Authorizer
from vkubelet.server.listener import NodeServer, serve_node
from vkubelet.server.policy import ServerPolicy
from vkubelet.server.services import KubeletServices
from vkubelet.server.tls import ServingTls

NODE = "virtual-0"
TOKEN = "good-token"
MASTERS = "system:masters"
_START = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_END = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)
_PEM = serialization.Encoding.PEM


class Authority:
    """A certificate authority, and files for what it issues."""

    def __init__(self, name: str = "client CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = self._build(
            self._name, self._key, [x509.BasicConstraints(ca=True, path_length=None)]
        )
        self.pem = certificate.public_bytes(_PEM).decode()

    def _build(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: Sequence[x509.ExtensionType],
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_START)
            .not_valid_after(_END)
        )
        for extension in extensions:
            critical = isinstance(extension, x509.BasicConstraints)
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256())

    def issue(
        self, folder: Path, name: str, groups: Sequence[str] = (), *, server: bool = False
    ) -> Path:
        """Write certificate and key to one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]
        attributes += [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, it) for it in groups]
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        extensions: list[x509.ExtensionType] = [
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            x509.SubjectAlternativeName([address]),
        ]
        certificate = self._build(x509.Name(attributes), key, extensions)
        private = key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = folder / f"{name.replace(':', '-')}.pem"
        path.write_bytes(certificate.public_bytes(_PEM) + private)
        return path


CLIENT_CA = Authority()
OTHER_CA = Authority("other CA")
SERVING_CA = Authority("serving CA")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A serving certificate in a file."""

    certificate_file: Path
    key_file: Path
    not_after: datetime.datetime = _END
    self_signed: bool = False


def issue_serving(folder: Path, name: str = f"system:node:{NODE}") -> ServingCertificate:
    path = SERVING_CA.issue(folder, name, ["system:nodes"], server=True)
    return Certificate(path, path)


Logs = Callable[[PodRef, str, LogOptions], AsyncGenerator[bytes, None]]
Exec = Callable[[CommandStreams, Sequence[str]], Awaitable[ExitStatus]]
Dial = Callable[[int], AbstractAsyncContextManager[ByteStream]]


@dataclass
class FakeProvider:
    """Runs what a test gives it; keeps what it was asked."""

    run_logs: Logs | None = None
    run_exec: Exec | None = None
    dial: Dial | None = None
    usage: NodeUsage = field(default_factory=NodeUsage)
    log_requests: list[tuple[PodRef, str, LogOptions]] = field(default_factory=list)
    exec_requests: list[tuple[PodRef, str, list[str], bool]] = field(default_factory=list)
    forward_requests: list[tuple[PodRef, int]] = field(default_factory=list)

    def logs(self, ref: PodRef, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        self.log_requests.append((ref, container, options))
        assert self.run_logs is not None
        return self.run_logs(ref, container, options)

    async def exec(
        self,
        ref: PodRef,
        container: str,
        command: Sequence[str],
        streams: CommandStreams,
        *,
        tty: bool,
    ) -> ExitStatus:
        self.exec_requests.append((ref, container, list(command), tty))
        assert self.run_exec is not None
        return await self.run_exec(streams, command)

    async def attach(
        self, ref: PodRef, container: str, streams: CommandStreams, *, tty: bool
    ) -> ExitStatus:
        return await self.exec(ref, container, ["attach"], streams, tty=tty)

    def port_forward(self, ref: PodRef, port: int) -> AbstractAsyncContextManager[ByteStream]:
        self.forward_requests.append((ref, port))
        assert self.dial is not None
        return self.dial(port)

    async def stats(self, node: str) -> NodeUsage:
        assert node == NODE
        return self.usage

    def watch_nodes(self) -> AsyncIterator[Sequence[VirtualNode]]:
        raise AssertionError

    async def apply_pod(self, node: str, pod: KubeObject) -> Sequence[str]:
        raise AssertionError

    async def delete_pod(self, ref: PodRef, *, grace_period_seconds: int | None) -> None:
        raise AssertionError

    def watch_statuses(self) -> AsyncIterator[StatusEvent]:
        raise AssertionError


POD: KubeObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "ns", "name": "pod", "uid": "uid-1"},
    "spec": {
        "nodeName": NODE,
        "containers": [{"name": "c"}, {"name": "ended"}],
        "initContainers": [{"name": "init"}],
        "ephemeralContainers": [{"name": "debugger"}],
    },
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {"name": "c", "state": {"running": {}}},
            {"name": "ended", "state": {"terminated": {"exitCode": 3}}},
        ],
        "initContainerStatuses": [{"name": "init", "state": {"running": {}}}],
        "ephemeralContainerStatuses": [{"name": "debugger", "state": {"running": {}}}],
    },
}


class FakeLookup:
    """
    One pod on one node.

    Attributes:
        pod: As the process knows it.
        current: As the API server has it; None if it can't be had.
    """

    def __init__(self) -> None:
        self.pod = POD
        self.current: KubeObject | None = POD

    async def read(self, namespace: str, name: str) -> CachedObject | None:
        assert (namespace, name) == ("ns", "pod")
        return None if self.current is None else decode_cached(encode_object(self.current))

    def find(self, node_name: str, namespace: str, name: str) -> CachedObject | None:
        found = (node_name, namespace, name) == (NODE, "ns", "pod")
        return decode_cached(encode_object(self.pod)) if found else None

    def on_node(self, node: str) -> list[CachedObject]:
        return [decode_cached(encode_object(self.pod))] if node == NODE else []


def review_access(call: ApiCall) -> KubeObject:
    """Let masters do everything, the metrics user read metrics, nobody else anything."""
    spec = call.body["spec"]
    allowed = MASTERS in spec["groups"]
    if spec["user"] == "metrics":
        attributes = spec["resourceAttributes"]
        allowed = (attributes["verb"], attributes["subresource"]) == ("get", "metrics")
    if spec["user"] == "reader":
        allowed = spec["resourceAttributes"]["verb"] == "get"
    return {**call.body, "status": {"allowed": allowed}}


def review_token(call: ApiCall) -> KubeObject:
    if call.body["spec"]["token"] == TOKEN:
        user = {"username": "robot", "uid": "7", "groups": [MASTERS], "extra": {"k": ["v"]}}
        return {**call.body, "status": {"authenticated": True, "user": user}}
    return {**call.body, "status": {"authenticated": False}}


@dataclass
class Harness:
    """A served node."""

    folder: Path
    api: FakeApiServer
    provider: FakeProvider
    pods: FakeLookup
    tls: ServingTls
    services: KubeletServices
    server: NodeServer

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"

    def context(
        self,
        name: str | None = "kube-apiserver",
        groups: Sequence[str] = (MASTERS,),
        authority: Authority = CLIENT_CA,
    ) -> ssl.SSLContext:
        """A client's TLS context, with a certificate unless name is None."""
        context = ssl.create_default_context(cadata=SERVING_CA.pem)
        if name is not None:
            context.load_cert_chain(authority.issue(self.folder, name, groups))
        return context

    @asynccontextmanager
    async def http(
        self, context: ssl.SSLContext | None = None
    ) -> AsyncGenerator[aiohttp.ClientSession, None]:
        connector = aiohttp.TCPConnector(ssl=context or self.context())
        async with aiohttp.ClientSession(self.url, connector=connector) as session:
            yield session


@asynccontextmanager
async def serve(
    folder: Path,
    *,
    policy: ServerPolicy | None = None,
    client_ca: str | None = CLIENT_CA.pem,
    capacity: Mapping[str, str] | None = None,
) -> AsyncGenerator[Harness, None]:
    """Serve one node; reviews are answered by `review_access` and `review_token`."""
    provider = FakeProvider()
    pods = FakeLookup()
    tls = ServingTls(issue_serving(folder), client_ca)
    async with FakeApiServer() as api, api.client("home") as client:
        api.handle("create subjectaccessreviews", review_access)
        api.handle("create tokenreviews", review_token)
        services = KubeletServices(
            provider=provider,
            pods=pods,
            authenticator=Authenticator(client),
            authorizer=Authorizer(client),
            policy=policy or ServerPolicy(),
            capacity=lambda _node: capacity or {},
        )
        async with serve_node(NODE, host="127.0.0.1", port=0, tls=tls, services=services) as server:
            yield Harness(folder, api, provider, pods, tls, services, server)
