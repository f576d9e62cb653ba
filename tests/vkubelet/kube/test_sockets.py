"""Sockets: what a peer said before it left is read, whatever is sent to it meanwhile."""

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest

from vkubelet.kube.sockets import PROBE_COUNT, open_patient_socket, open_socket

LAST_WORDS = b"the end" * 10_000


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


async def connect(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Our end of a connection, and the peer's."""
    family, address = listener.family, listener.getsockname()
    ours = open_patient_socket((family, socket.SOCK_STREAM, 0, "", address))
    await asyncio.get_running_loop().sock_connect(ours, address)
    theirs, _ = listener.accept()
    return ours, theirs


def leave(theirs: socket.socket) -> None:
    """Say the last words and close, as servers do, without reading what comes."""
    theirs.sendall(LAST_WORDS)
    theirs.close()


async def test_last_words_are_read_while_we_still_talk(listener: socket.socket) -> None:
    ours, theirs = await connect(listener)
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(b"never read")
    leave(theirs)
    for _ in range(3):  # the first may go out before the reset comes
        writer.write(b"still talking")
    assert await reader.read() == LAST_WORDS
    writer.close()


async def test_what_is_not_taken_counts_as_sent(listener: socket.socket) -> None:
    ours, theirs = await connect(listener)
    ours.send(b"never read")
    leave(theirs)
    assert [ours.send(b"12345") for _ in range(3)] == [5, 5, 5]
    assert [ours.sendmsg([b"12", memoryview(b"345")]) for _ in range(3)] == [5, 5, 5]
    ours.close()


async def test_all_is_sent_while_the_peer_listens(listener: socket.socket) -> None:
    ours, theirs = await connect(listener)
    assert ours.send(b"one") == 3
    assert ours.sendmsg([b" two"]) == 4
    assert theirs.recv(100) == b"one two"
    ours.close()
    theirs.close()


async def test_what_does_not_fit_waits(listener: socket.socket) -> None:
    ours, theirs = await connect(listener)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    chunk = b"x" * 65536
    with pytest.raises(BlockingIOError):
        sum(ours.send(chunk) for _ in range(1000))
    ours.close()
    theirs.close()


@pytest.mark.parametrize("create", [open_socket, open_patient_socket])
async def test_a_peer_that_vanishes_is_noticed(create: Callable[..., socket.socket]) -> None:
    with create((socket.AF_INET, socket.SOCK_STREAM, 0, "", ())) as opened:
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == PROBE_COUNT
        assert not opened.getblocking()
