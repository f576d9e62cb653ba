"""
The seam between the generic kubelet and what runs the pods.

A provider implements `Provider`; `vkubelet.kubelet` composes a kubelet around it. Pods cross the
seam as raw JSON, everything else as the values below.

Who owns what: `vkubelet.pods` owns the home store, decides, and writes at home; the provider owns
what is behind. A provider never writes home Pods or Nodes.
"""

import enum
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeAlias

from vkubelet.kube.objects import KubeObject, NamespacedName


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a virtual node."""

    key: str
    value: str = ""
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCondition:
    """A condition of a virtual node; transition times are the node controller's."""

    type: str
    status: str
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualNode:
    """
    What a virtual node is to look like; a value, replaced as a whole.

    Attributes:
        name: Name of the Node object.
        labels: Labels we own on it; others stay untouched.
        inherited: Keys of those labels that it only has from what is behind: a value that somebody
            sets on the Node wins.
        annotations: Annotations we own on it.
        taints: Taints we own on it, by key and effect.
        capacity: Quantities by resource name, canonical text.
        allocatable: As capacity.
        conditions: At least Ready.
        node_info: status.nodeInfo; keys as in the API.
        cordon: Whether we want it unschedulable; only a cordon of ours is ever undone.
        declared_features: status.declaredFeatures of what is behind.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    inherited: frozenset[str] = frozenset()
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    node_info: Mapping[str, str] = field(default_factory=dict)
    cordon: bool = False
    declared_features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodRef:
    """Which home pod is meant; another UID under the same name is another pod."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> NamespacedName:
        """Namespace and name."""
        return NamespacedName(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """
    The state of what is behind a home pod.

    Attributes:
        ref: The home pod.
        node: The virtual node it was applied for.
        status: `status` of the pod, translated to home's view. Conditions are what the provider
            knows; the pod controller merges them.
        deletion_timestamp: Set when what is behind is being deleted.
        unschedulable: Whether no place is found for what is behind.
        restarts: Restarts, by container, that the home pod had shown when this was made in place of
            what had been lost; to be kept where a restart of the process doesn't lose them.
        generation: metadata.generation of the home pod whose spec this status goes by; None while
            that isn't known.
    """

    ref: PodRef
    node: str
    status: KubeObject
    deletion_timestamp: str | None = None
    unschedulable: bool = False
    restarts: Mapping[str, int] = field(default_factory=dict)
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Synced:
    """The snapshot is complete: what wasn't named doesn't exist behind."""


@dataclass(frozen=True, slots=True)
class Gone:
    """What was behind this home pod no longer exists."""

    ref: PodRef


@dataclass(frozen=True, slots=True)
class Unreachable:
    """What is behind can't be reached (for `message`); nothing is decided until `Reachable`."""

    message: str


@dataclass(frozen=True, slots=True)
class Reachable:
    """What is behind can be reached again."""


@dataclass(frozen=True, slots=True)
class Unblocked:
    """What the application of this home pod depends on has changed: it's to be applied again."""

    ref: PodRef


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvent:
    """
    An event on what is behind a home pod, to be shown on the home pod.

    Attributes:
        ref: The home pod.
        identity: Which event it is: the same again, with another count, is the same Event at home.
        type: Normal or Warning.
        reason: CamelCase word.
        message: A sentence.
        count: How often it has happened.
        first_time: When it happened first.
        last_time: When it happened last.
        component: Who saw it.
        host: Where, "" if that isn't told.
    """

    ref: PodRef
    identity: str
    type: str
    reason: str
    message: str
    count: int
    first_time: datetime
    last_time: datetime
    component: str
    host: str = ""


StatusEvent: TypeAlias = PodStatus | Synced | Gone | Unreachable | Reachable | Unblocked | PodEvent
"""What `Provider.watch_statuses` yields."""


class LogStream(enum.StrEnum):
    """Which output a log request wants."""

    ALL = "All"
    STDOUT = "Stdout"
    STDERR = "Stderr"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """
    Options of a log request, checked already.

    Attributes:
        follow: Go on until the container ends.
        previous: The last terminated instance.
        timestamps: Prefix each line with its RFC 3339 time.
        tail_lines: This many lines from the end; None for all.
        since_time: Only lines at or after it; sinceSeconds has been turned into `since_seconds`.
        since_seconds: Only lines of the last so many seconds.
        limit_bytes: Stop after so many bytes.
        stream: Which output.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_time: datetime | None = None
    since_seconds: int | None = None
    limit_bytes: int | None = None
    stream: LogStream = LogStream.ALL


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """Columns and rows of a terminal."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """
    How a command ended.

    Attributes:
        code: 0 to 255; a signal n is 128 + n. None: it couldn't be run or its end is unknown.
        message: Why, when code is None.
    """

    code: int | None
    message: str = ""


class CommandStreams(Protocol):
    """The caller's side of an exec; unwanted streams read as at EOF and swallow what is written."""

    stdin: bool
    stdout: bool
    stderr: bool

    async def read_stdin(self) -> bytes:
        """Return the next bytes of stdin, b"" at its end (half-close) and from then on."""

    async def write_stdout(self, data: bytes) -> None:
        """Write to the caller's stdout; waits while the caller is slow."""

    async def write_stderr(self, data: bytes) -> None:
        """Write to the caller's stderr; waits while the caller is slow."""

    async def wait_resize(self) -> TerminalSize:
        """Wait for the next terminal size; never returns when there is no terminal."""


class ByteStream(Protocol):
    """A connection to a port of a pod; either direction ends on its own."""

    async def read(self) -> bytes:
        """
        Return the next bytes, b"" once the pod has ended its direction.

        Raises:
            RequestError: If nobody listens, which may show only now.
            ConnectionError: If the connection broke.
        """

    async def write(self, data: bytes) -> None:
        """
        Send bytes; waits while the pod is slow.

        Raises:
            ConnectionError: If the pod doesn't take any more.
        """

    async def write_eof(self) -> None:
        """End our direction; the pod's goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSample:
    """
    What something has used, when that was looked at.

    Attributes:
        time: When the sample was taken; not when it was asked for.
        cpu_seconds: Cumulative cpu time in core-seconds; only a restart makes it smaller.
        memory_bytes: Working set.
        started: Since when it counts.
    """

    time: datetime
    cpu_seconds: float
    memory_bytes: int
    started: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """Use of a pod and of its containers by name."""

    ref: PodRef
    pod: UsageSample
    containers: Mapping[str, UsageSample] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """
    Use of a virtual node, and of the pods on it as far as it's known.

    Attributes:
        node: None if it isn't known.
        pods: Only pods of that node.
    """

    node: UsageSample | None = None
    pods: tuple[PodUsage, ...] = ()


class Provider(Protocol):
    """What runs the pods of some virtual nodes."""

    def watch_nodes(self) -> AsyncIterator[Sequence[VirtualNode]]:
        """
        Yield the full desired set of virtual nodes: the first when synced, then at each change.

        No Node is created before the first. Ends only by cancellation.
        """

    async def apply_pod(self, node: str, pod: KubeObject) -> Sequence[str]:
        """
        Make the pod behind be as this home pod says; create or update; idempotent.

        Returns:
            Warnings: what couldn't travel, a sentence each.

        Raises:
            RetryError: Passing trouble (also KubeError of the retryable kinds).
            RefusedError: It can't run there as it is.
        """

    async def delete_pod(self, ref: PodRef, *, grace_period_seconds: int | None) -> None:
        """
        Delete what is behind the home pod; idempotent; called again to shorten the grace.

        A pod behind that belongs to another UID is left alone. Returns when the deletion has been
        asked for; its end arrives as `Gone`. `None` leaves the grace to the pod's own spec.

        Raises:
            RetryError: Passing trouble.
        """

    def watch_statuses(self) -> AsyncIterator[StatusEvent]:
        """
        Yield a snapshot (PodStatus each), Synced, then changes; from the provider's own cache.

        After a reconnect differences are yielded as changes. Unreachable and Reachable may come at
        any time, also before Synced; so may Unblocked and PodEvent. Ends only by cancellation.
        """

    def logs(self, ref: PodRef, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """
        Yield the container's log in chunks.

        With `follow` an empty chunk comes first: send the headers. Closing the iterator ends the
        far side.

        Raises:
            RequestError: Before the first chunk, with the kubelet's sentence.
        """

    async def exec(
        self,
        ref: PodRef,
        container: str,
        command: Sequence[str],
        streams: CommandStreams,
        *,
        tty: bool,
    ) -> ExitStatus:
        """
        Run a command in a container until it ends; all output has been written when this returns.

        Cancelling ends the far side.

        Raises:
            RequestError: If it couldn't be started.
        """

    async def attach(
        self, ref: PodRef, container: str, streams: CommandStreams, *, tty: bool
    ) -> ExitStatus:
        """
        Attach to a container's main process until it ends; code 0 then, whatever its own is.

        Cancelling detaches and leaves the container alone.

        Raises:
            RequestError: If it couldn't be attached to.
        """

    def port_forward(self, ref: PodRef, port: int) -> AbstractAsyncContextManager[ByteStream]:
        """
        Connect to a TCP port of the pod; leaving the context closes the connection.

        Raises:
            RequestError: When entered, if nobody listens or the pod can't be reached.
        """

    async def stats(self, node: str) -> NodeUsage:
        """
        Tell what a virtual node and its pods have used; from a cache, quick.

        What isn't known is left out; that nothing is known is no error.
        """


class ServingCertificate(Protocol):
    """A certificate with its key: PEM files that `ssl.SSLContext.load_cert_chain` takes."""

    @property
    def certificate_file(self) -> Path:
        """File of the chain, leaf first."""

    @property
    def key_file(self) -> Path:
        """File of the key; may be the same file."""

    @property
    def not_after(self) -> datetime:
        """When it expires."""

    @property
    def self_signed(self) -> bool:
        """Whether only clients that don't verify accept it."""


class CertificateSource(Protocol):
    """Where the serving certificates of virtual nodes come from; `certs` satisfies it."""

    def run(self) -> Awaitable[object]:
        """Follow where they come from until cancelled: new ones come while it runs."""

    def watch_certificate(
        self, node_name: str, addresses: Sequence[str]
    ) -> AsyncIterator[ServingCertificate]:
        """
        Yield a usable certificate for the node at once, then each that replaces it.

        Ends only by cancellation. Files stay for the next start.
        """

    def forget(self, node_name: str) -> None:
        """Remove key and certificate of a node that is no more."""
