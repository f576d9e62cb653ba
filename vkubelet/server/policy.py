"""Limits and time-outs of the kubelet API's server; the defaults are the real kubelet's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPolicy:
    """
    Limits of the nodes' ports.

    Attributes:
        handshake_seconds: For the TLS handshake.
        first_request_seconds: From the connection to a first request of somebody who may make it.
        keep_alive_seconds: How long a connection may idle between requests.
        stream_creation_seconds: For a client to open all streams of an exec.
        stream_idle_seconds: How long an exec may pass no data either way; 0: for ever.
        linger_idle_seconds: After an exec: wait for the client to close while nothing moves.
        linger_seconds: The same, in all.
        stdin_discard_seconds: After the command: throw away stdin at most so long.
        shutdown_seconds: For streams to end when the server stops.
        max_connections: Connections of one node.
        max_strangers: Connections of all nodes that nobody has made a request on that he may make;
            the oldest yields.
        max_head_bytes: Bytes of a stranger, as MaxHeaderBytes of a kubelet.
        max_stranger_bytes: The same, of all strangers of all nodes; who holds most yields.
    """

    handshake_seconds: float = 10.0
    first_request_seconds: float = 30.0
    keep_alive_seconds: float = 90.0
    stream_creation_seconds: float = 30.0
    stream_idle_seconds: float = 4 * 60 * 60.0
    linger_idle_seconds: float = 60.0
    linger_seconds: float = 10 * 60.0
    stdin_discard_seconds: float = 5.0
    shutdown_seconds: float = 3.0
    max_connections: int = 4096
    max_strangers: int = 1024
    max_head_bytes: int = (1 << 20) + (1 << 16)
    max_stranger_bytes: int = 64 << 20
