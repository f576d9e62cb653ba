"""
The configuration: one frozen tree, filled from a file, the environment and flags.

A field's docstring is its help text; its `Flag` says how it's called on the command line. The key
in a file is the path of names in camel case (`remote.cluster`), the variable is made from the flag
(`VKUBELET_REMOTE_CLUSTER`).
"""

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from provider.checks import (
    Duration,
    ListenAddress,
    check_dns_label,
    check_ip_address,
    check_namespace_name,
    check_namespace_template,
    check_selector,
    read_api_server,
    read_cidr_remap,
    read_duration,
    read_listen_address,
    read_port_range,
    read_timeout,
)
from provider.flags import Flag, Section
from provider.node_config import CapacityConfig, DrainConfig, NodeConfig, RemovalConfig
from provider.translation.addresses import CidrRemap, find_overlap
from provider.translation.pod import ApiServerAddress
from provider.translation.tokens import ApiAccess
from vkubelet.config import DaemonSetPolicy, PortRange, UnreachableAction


class CertificateMode(enum.StrEnum):
    """Where serving certificates come from."""

    CSR = "csr"
    FILES = "files"
    SELF_SIGNED = "self-signed"


class PodNetwork(enum.StrEnum):
    """Whether addresses of remote pods can be reached from home."""

    NONE = "none"
    ROUTED = "routed"


class LogLevel(enum.StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class HomeConfig(Section):
    """The home cluster."""

    kubeconfig: Annotated[Path | None, Flag("--kubeconfig", "FILE")] = None
    """Kubeconfig of the home cluster (default: in-cluster, then the usual kubeconfig rules)."""

    context: Annotated[str | None, Flag("--context", "NAME")] = None
    """Context in that kubeconfig (default: its current one)."""

    cluster: Annotated[
        Annotated[str, AfterValidator(check_dns_label)] | None, Flag("--home-cluster", "NAME")
    ] = None
    """Name of the home cluster in remote namespaces (default: from the UID of kube-system)."""

    system_namespace: Annotated[
        Annotated[str, AfterValidator(check_dns_label)] | None,
        Flag("--system-namespace", "NAMESPACE"),
    ] = None
    """Namespace of the lock Lease (default: the process's own namespace, else kube-system)."""


class PeeringConfig(Section):
    """The remote cluster."""

    cluster: Annotated[str, AfterValidator(check_dns_label), Flag("--remote-cluster", "NAME")]
    """Name of the remote cluster, in labels and node names; names the peering. Required."""


class RemoteAccessConfig(PeeringConfig):
    """The remote cluster."""

    kubeconfig: Annotated[Path, Flag("--remote-kubeconfig", "FILE")]
    """Kubeconfig of the remote cluster; read again when it changes. Required."""

    context: Annotated[str | None, Flag("--remote-context", "NAME")] = None
    """Context in that kubeconfig (default: its current one)."""

    allow_exec: Annotated[bool, Flag("--allow-remote-exec")] = False
    """Let the remote kubeconfig run credential plugins."""

    allow_files: Annotated[bool, Flag("--allow-remote-files")] = False
    """Let the remote kubeconfig name files outside its own folder."""


class RemoteConfig(RemoteAccessConfig):
    """The remote cluster."""

    unreachable: Annotated[UnreachableAction, Flag("--remote-unreachable", "MODE")] = (
        UnreachableAction.EVICT
    )
    """After 30 s without the remote API: evict (node NotReady, Kubernetes evicts) or keep."""


class NamespaceConfig(Section):
    """Which namespaces are reflected, and where to."""

    names: Annotated[
        tuple[Annotated[str, AfterValidator(check_namespace_name)], ...],
        Flag("--namespace", "NAMESPACE"),
    ] = ()
    """Home namespace whose pods are reflected; repeatable; '*' for all but the system ones."""

    selector: Annotated[
        Annotated[str, AfterValidator(check_selector)] | None,
        Flag("--namespace-selector", "SELECTOR"),
    ] = None
    """Home namespaces with these labels are reflected too."""

    remote: Annotated[
        str, AfterValidator(check_namespace_template), Flag("--remote-namespace", "TEMPLATE")
    ] = "{namespace}-{home_cluster}"
    """Name of the remote namespace, from {namespace}, {home_cluster}, {remote_cluster}."""

    adopt: Annotated[bool, Flag("--adopt-namespaces")] = False
    """Use remote namespaces that exist and aren't ours."""

    @property
    def all_named(self) -> bool:
        """Whether every namespace that is reflected is known by name."""
        return self.selector is None and "*" not in self.names

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.names and self.selector is None:
            raise ValueError(
                "--namespace or --namespace-selector is required: no namespace is reflected"
                " unless named ('*' for all)"
            )
        if "{namespace}" not in self.remote and (
            self.selector is not None or len(set(self.names)) > 1 or "*" in self.names
        ):
            raise ValueError(
                f"--remote-namespace {self.remote!r} maps two namespaces to one: use {{namespace}}"
            )
        return self


class PodConfig(Section):
    """Pods on virtual nodes."""

    daemonsets: Annotated[DaemonSetPolicy, Flag("--daemonset-pods", "MODE")] = (
        DaemonSetPolicy.PLACEHOLDER
    )
    """DaemonSet pods: placeholder (Running, no containers), pending or reflect."""

    api_access: Annotated[ApiAccess, Flag("--api-access", "MODE")] = ApiAccess.NONE
    """API server that pods can reach with their service account: none, home (by tokens bound to the
    home pod; the provider could use them) or remote (its own account of that name)."""

    home_api_server: Annotated[
        ApiServerAddress | None,
        BeforeValidator(read_api_server),
        Flag("--home-api-server", "HOST:PORT"),
    ] = None
    """With --api-access home: where pods in the remote cluster reach home's API server."""

    allow_host_access: Annotated[bool, Flag("--allow-host-access")] = False
    """Let hostNetwork, hostPID, hostIPC, hostPath, hostPort, privileged, capabilities beyond Pod
    Security's baseline and probes of other hosts travel; remote namespaces that are made then get
    Pod Security `privileged` instead of `baseline`."""

    network: Annotated[PodNetwork, Flag("--pod-network", "MODE")] = PodNetwork.NONE
    """Pod addresses at home: none (they can't be reached from there) or routed (they can)."""

    remap_cidrs: Annotated[
        tuple[Annotated[CidrRemap, BeforeValidator(read_cidr_remap)], ...],
        Flag("--remap-cidr", "FROM=TO"),
    ] = ()
    """With --pod-network routed: a pod network over there and the one of that size that it's routed
    as at home; repeatable."""

    unschedulable_timeout: Annotated[
        Duration, BeforeValidator(read_timeout), Flag("--unschedulable-timeout", "DURATION")
    ] = Duration(math.inf)
    """When a pod that the remote scheduler finds no node for is evicted at home, so that its
    controller makes another one elsewhere; or never."""

    remote_lost_timeout: Annotated[
        Duration, BeforeValidator(read_timeout), Flag("--remote-lost-timeout", "DURATION")
    ] = Duration(300)
    """When a pod is evicted at home whose remote pod is being deleted though nobody at home asked
    for it, as on a dead node; or never."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        at_home = self.api_access is ApiAccess.HOME
        if at_home and self.home_api_server is None:
            raise ValueError("--home-api-server is required with --api-access home")
        if not at_home and self.home_api_server is not None:
            raise ValueError("--home-api-server goes with --api-access home only")
        if self.remap_cidrs and self.network is not PodNetwork.ROUTED:
            raise ValueError("--remap-cidr goes with --pod-network routed only")
        overlap = find_overlap(self.remap_cidrs)
        if overlap is not None:
            raise ValueError(f"--remap-cidr {overlap[0]} and {overlap[1]} overlap")
        return self


class ServingConfig(Section):
    """The kubelet API and its certificates."""

    ports: Annotated[
        PortRange, BeforeValidator(read_port_range), Flag("--kubelet-ports", "FROM-TO")
    ] = PortRange(first=10250, last=10549)
    """Ports of the kubelet API, one a virtual node."""

    certificates: Annotated[CertificateMode, Flag("--certificates", "MODE")] = CertificateMode.CSR
    """Serving certificates: csr (signed by the home cluster), files or self-signed."""

    certificate_file: Annotated[Path | None, Flag("--certificate-file", "FILE")] = None
    """With --certificates files: the PEM certificate, followed as it changes."""

    key_file: Annotated[Path | None, Flag("--key-file", "FILE")] = None
    """With --certificates files: its PEM key."""

    signer_name: Annotated[str, Flag("--signer-name", "NAME")] = "kubernetes.io/kubelet-serving"
    """With --certificates csr: the signer that is asked."""

    approve_csr: Annotated[bool, Flag("--approve-csr")] = False
    """Approve our own signing requests (needs the right to)."""

    stream_creation_timeout: Annotated[
        Duration, BeforeValidator(read_duration), Flag("--stream-creation-timeout", "DURATION")
    ] = Duration(30)
    """How long a client may take to open all streams of exec, attach or port-forward."""

    stream_idle_timeout: Annotated[
        Duration, BeforeValidator(read_timeout), Flag("--stream-idle-timeout", "DURATION")
    ] = Duration(4 * 3600)
    """How long exec, attach or port-forward may pass no data before it is ended; or never."""

    no_websockets: Annotated[bool, Flag("--no-kubelet-websockets")] = False
    """Don't declare that we take WebSockets: API servers (1.36 or later) then send us SPDY."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        files = self.certificates is CertificateMode.FILES
        for flag, value in (
            ("--certificate-file", self.certificate_file),
            ("--key-file", self.key_file),
        ):
            if files and value is None:
                raise ValueError(f"{flag} is required with --certificates files")
            if not files and value is not None:
                raise ValueError(f"{flag} goes with --certificates files only")
        if self.stream_creation_timeout.seconds <= 0:
            raise ValueError("--stream-creation-timeout must be longer than 0s")
        if self.approve_csr and self.certificates is not CertificateMode.CSR:
            raise ValueError("--approve-csr goes with --certificates csr only")
        return self


class KubeletConfig(ServingConfig):
    """The kubelet API and its certificates."""

    address: Annotated[str, AfterValidator(check_ip_address), Flag("--kubelet-address", "IP")]
    """Address published as InternalIP (default: $POD_IP, else required)."""


class ProcessConfig(Section):
    """The process itself."""

    health_address: Annotated[
        ListenAddress, BeforeValidator(read_listen_address), Flag("--health-address", "[HOST]:PORT")
    ] = ListenAddress("", 8080)
    """Where /livez, /readyz and /metrics are served."""

    data_dir: Annotated[Path, Flag("--data-dir", "DIR")] = Path("/var/lib/vkubelet")
    """Keys and certificates, kept across restarts."""

    log_level: Annotated[LogLevel, Flag("--log-level", "LEVEL")] = LogLevel.INFO
    """How much is logged: debug, info, warning or error."""


class Config(Section):
    """The whole configuration, as `vkubelet run` takes it."""

    home: HomeConfig = Field(default_factory=HomeConfig)
    remote: RemoteConfig
    namespaces: NamespaceConfig
    nodes: NodeConfig = Field(default_factory=NodeConfig)
    capacity: CapacityConfig = Field(default_factory=CapacityConfig)
    removal: RemovalConfig = Field(default_factory=RemovalConfig)
    pods: PodConfig = Field(default_factory=PodConfig)
    kubelet: KubeletConfig
    process: ProcessConfig = Field(default_factory=ProcessConfig)


class PlanConfig(Section):
    """The part of the configuration that `vkubelet plan` takes."""

    remote: RemoteAccessConfig
    nodes: NodeConfig = Field(default_factory=NodeConfig)
    capacity: CapacityConfig = Field(default_factory=CapacityConfig)


class TeardownConfig(Section):
    """The part of the configuration that `vkubelet teardown` takes."""

    home: HomeConfig = Field(default_factory=HomeConfig)
    remote: RemoteAccessConfig
    removal: DrainConfig = Field(default_factory=DrainConfig)


class HomeTeardownConfig(Section):
    """The same when there is no remote cluster any more."""

    home: HomeConfig = Field(default_factory=HomeConfig)
    remote: PeeringConfig
    removal: DrainConfig = Field(default_factory=DrainConfig)


@dataclass(frozen=True, slots=True)
class ConfigField:
    """
    A leaf of the tree.

    Attributes:
        path: Section and key, as in a file.
        flag: How it's called on the command line.
        info: pydantic's view of it.
        repeatable: Whether it takes several values.
        switch: Whether it's a boolean.
    """

    path: tuple[str, str]
    flag: Flag
    info: FieldInfo
    repeatable: bool
    switch: bool

    @property
    def help(self) -> str:
        """Its docstring, on one line, with the default."""
        text = " ".join((self.info.description or "").split())
        default = self.info.get_default()
        if self.info.is_required() or default in (None, "", (), False) or "(default" in text:
            return text
        return f"{text.rstrip('.')} (default: {_format_default(default)})."


def _format_default(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def config_fields(model: type[Section] = Config) -> Iterator[ConfigField]:
    """Yield every leaf of a tree, in order."""
    for section, section_info in model.model_fields.items():
        part: Any = section_info.annotation
        for info_name, info in part.model_fields.items():
            flag = next(item for item in info.metadata if isinstance(item, Flag))
            yield ConfigField(
                path=(to_camel(section), to_camel(info_name)),
                flag=flag,
                info=info,
                repeatable=str(info.annotation).startswith("tuple"),
                switch=info.annotation is bool,
            )
