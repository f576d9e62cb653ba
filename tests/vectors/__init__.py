"""
Streams recorded from real kubectl and kube-apiserver, as a kubelet server saw them after TLS.

The kubelet was a throwaway: only the client's bytes are authoritative. Header compression depends
on zlib's version: compare decoded headers, not bytes.
"""

import json
from dataclasses import dataclass
from pathlib import Path

SPDY_EXECS = (
    "exec-short-spdy-passthrough",
    "exec-short-spdy-translated",
    "exec-short-spdy-translated-134",
    "exec-tty-resize-spdy-passthrough",
    "exec-tty-resize-spdy-translated",
    "exec-tty-resize-spdy-translated-134",
    "exec-stdin70k-spdy-passthrough",
    "exec-stdin70k-spdy-translated",
    "exec-stdin70k-spdy-translated-134",
)
WEBSOCKET_EXECS = ("exec-short-ws-v5", "exec-stdin70k-ws-v5", "exec-tty-resize-ws-v5")
SPDY_FORWARDS = (
    "portforward-2conn-spdy-passthrough",
    "portforward-2conn-spdy-tunnelled",
    "portforward-2conn-spdy-tunnelled-134",
)
TUNNELLED_FORWARD = "portforward-2conn-ws-tunnel"


@dataclass(frozen=True, slots=True)
class Vector:
    """
    A recorded connection.

    Attributes:
        request_head: The client's HTTP request.
        chunks: What came after the heads, in order: (whether from the client, bytes).
    """

    request_head: bytes
    chunks: tuple[tuple[bool, bytes], ...]

    @property
    def client_bytes(self) -> bytes:
        """All that the client sent after its request."""
        return b"".join(data for from_client, data in self.chunks if from_client)

    @property
    def server_bytes(self) -> bytes:
        """All that the server sent after its 101."""
        return b"".join(data for from_client, data in self.chunks if not from_client)


def load_vector(name: str) -> Vector:
    """Load a recording by its file name without suffix."""
    recorded = json.loads((Path(__file__).parent / f"{name}.json").read_text())
    chunks: list[tuple[bool, bytes]] = []
    heads = {True: b"", False: b""}
    for direction, text, _seconds in recorded["frames"]:
        from_client = direction == "client->server"
        data = bytes.fromhex(text)
        if b"\r\n\r\n" not in heads[from_client]:
            heads[from_client] += data
            head, end, data = heads[from_client].partition(b"\r\n\r\n")
            heads[from_client] = head + end
        if data:
            chunks.append((from_client, data))
    return Vector(heads[True], tuple(chunks))
