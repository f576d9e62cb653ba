"""No output is lost when the server closes while we are slow, in the loop of `vkubelet run`."""

import asyncio
import base64
import hashlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from provider.commands.run import LOOP_FACTORY
from provider.streams.relay import RemoteStreams
from tests.provider.streams.caller import Caller
from tests.vkubelet.kube.certificates import Authority, server_context
from tests.vkubelet.kube.serving import connect
from vkubelet.interface import ExitStatus
from vkubelet.kube.objects import NamespacedName

CHUNK = b"x" * 32767
CHUNKS = 150
_ACCEPT_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Slow(Caller):
    """Takes its time now and then."""

    async def write_stdout(self, data: bytes) -> None:
        await super().write_stdout(data)
        if len(self.output) % 8 == 0:
            await asyncio.sleep(0.001)


def build_frame(opcode: int, data: bytes) -> bytes:
    size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
    return bytes([0x80 | opcode]) + size + data


def play(connection: ssl.SSLSocket) -> None:
    """Write all there is, and close at once, as Go servers do."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(65536)
    lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    key = next(
        line.split(b": ", 1)[1]
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"sec-websocket-key")
    )
    assert b"sec-websocket-protocol" in lines
    accept = base64.b64encode(hashlib.sha1(key + _ACCEPT_KEY).digest())
    connection.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\nSec-WebSocket-Accept: %s\r\n\r\n" % accept
    )
    for _ in range(CHUNKS):
        connection.sendall(build_frame(2, b"\x01" + CHUNK))
    connection.sendall(build_frame(2, b'\x03{"metadata":{},"status":"Success"}'))
    connection.sendall(build_frame(8, b"\x03\xe8"))
    connection.setblocking(False)
    with suppress(OSError):
        connection.unwrap()


@contextmanager
def serve(context: ssl.SSLContext) -> Iterator[str]:
    """Serve in threads, so that the client's loop may be slow."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                threading.Thread(target=handle, args=(accepted,)).start()

    def handle(accepted: socket.socket) -> None:
        with accepted, context.wrap_socket(accepted, server_side=True) as connection:
            play(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_no_tail_is_lost(tmp_path: Path) -> None:
    authority = Authority()
    context = server_context(authority, tmp_path)
    cluster = {"certificate-authority-data": base64.b64encode(authority.pem).decode()}

    async def run(url: str) -> None:
        async with connect(tmp_path, url, cluster=cluster) as client:
            remote = RemoteStreams(client)
            for _ in range(8):
                caller = Slow()
                key = NamespacedName("shop-home", "web")
                status = await remote.exec(
                    key, "main", ["cat"], caller, tty=False, home_namespace="shop"
                )
                assert len(caller.output) == CHUNKS * len(CHUNK)
                assert status == ExitStatus(0)

    with serve(context) as url, asyncio.Runner(loop_factory=LOOP_FACTORY) as runner:
        runner.run(run(url))
