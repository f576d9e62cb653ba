"""
Throw mutated recordings at every protocol core: `python -m tests.bench.fuzz_streaming [SECONDS]`.

Nothing may raise, nothing may be said after the last event, and what is kept stays under its caps.
The seed is printed; SEED=… repeats a run. 60 seconds by default.
"""

import os
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.vectors import (
    SPDY_EXECS,
    SPDY_FORWARDS,
    TUNNELLED_FORWARD,
    WEBSOCKET_EXECS,
    load_vector,
)
from vkubelet.streaming import portforward, remotecommand
from vkubelet.streaming.channels import PROTOCOL_BASE64_V4, PROTOCOL_V4, PROTOCOL_V5, CommandStatus
from vkubelet.streaming.portforward import PortForwardServer
from vkubelet.streaming.portforward_channels import ChannelForwardServer
from vkubelet.streaming.portforward_client import PortForwardClient
from vkubelet.streaming.portforward_tunnel import TunnelledPortForwardServer
from vkubelet.streaming.remotecommand import Phase, RemoteCommandServer, StreamOptions, StreamType
from vkubelet.streaming.remotecommand_client import CommandEnded, RemoteCommandClient
from vkubelet.streaming.remotecommand_websocket import WebSocketCommandServer

TTY = StreamOptions(stdin=True, stdout=True, tty=True)
PIPES = StreamOptions(stdin=True, stdout=True, stderr=True)

LAST_EVENTS = (remotecommand.Disconnected, portforward.Disconnected, CommandEnded)

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""A core's own memory: the caps of its buffers and tables, and what Python adds."""


class Core(Protocol):
    """What all cores have."""

    def receive_data(self, data: bytes) -> Sequence[Any]:
        """Take bytes of the peer."""

    def receive_eof(self) -> Sequence[Any]:
        """Take the end of the peer's bytes."""

    def data_to_send(self) -> bytes:
        """Return what must be written."""


def _open_forwards() -> PortForwardClient:
    client = PortForwardClient()
    for _ in range(3):
        client.open(80)
    return client


def _start(core: Any) -> Any:
    core.start()
    return core


CORES: Sequence[tuple[Callable[[], Core], Sequence[str]]] = (
    (lambda: _start(RemoteCommandServer(TTY, PROTOCOL_V4)), SPDY_EXECS),
    (lambda: _start(RemoteCommandServer(PIPES, PROTOCOL_V4)), SPDY_EXECS),
    (lambda: _start(PortForwardServer()), SPDY_FORWARDS),
    (lambda: _start(TunnelledPortForwardServer()), (TUNNELLED_FORWARD,)),
    (lambda: _start(WebSocketCommandServer(TTY, PROTOCOL_V5)), WEBSOCKET_EXECS),
    (lambda: _start(WebSocketCommandServer(PIPES, PROTOCOL_BASE64_V4)), WEBSOCKET_EXECS),
    (lambda: _start(ChannelForwardServer((80, 81), PROTOCOL_V4)), WEBSOCKET_EXECS),
    (lambda: RemoteCommandClient(PIPES), SPDY_EXECS),
    (_open_forwards, SPDY_FORWARDS),
)


def load_chunks(core: Core, name: str) -> list[bytes]:
    """Load what the core's peer said in a recording."""
    is_client = isinstance(core, RemoteCommandClient | PortForwardClient)
    return [data for from_client, data in load_vector(name).chunks if from_client is not is_client]


def mutate(chunks: Sequence[bytes], rng: random.Random) -> list[bytes]:
    """Cut, repeat, swap, drop, flip and invent bytes."""
    data = bytearray(b"".join(chunks)[: rng.choice((200, 2000, 100_000))])
    for _ in range(rng.randrange(6)):
        if not data:
            break
        at, size = rng.randrange(len(data)), rng.randrange(1, 40)
        match rng.randrange(5):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = rng.randbytes(size)
            case 3:
                data[at:at] = data[at : at + size] * rng.choice((1, 2, 500))
            case _:
                data[at : at + size] = bytes(size) if rng.random() < 0.5 else b"\xff" * size
    pieces: list[bytes] = []
    while data:
        size = rng.choice((1, 3, 8, 100, 5000, 65536))
        pieces.append(bytes(data[:size]))
        del data[:size]
    return pieces


def act(core: Core, rng: random.Random) -> None:
    """Do something that the process could do now."""
    match core:
        case RemoteCommandServer() | WebSocketCommandServer():
            if core.phase is Phase.RUNNING:
                core.send_output(StreamType.STDOUT, b"out")
                if rng.random() < 0.2:
                    core.send_status(CommandStatus(rng.choice((0, 7, None))))
            core.send_probe()
        case PortForwardServer() | ChannelForwardServer():
            call = rng.choice((core.send_eof, core.finish, core.abort, core.give_up))
            core.send_data(rng.randrange(4), b"out")
            call(rng.randrange(4))
        case RemoteCommandClient():
            if core.phase is Phase.RUNNING:
                core.send_stdin(b"in")
        case PortForwardClient():
            core.send_ping()
        case _:
            raise AssertionError(core)


def run_once(build: Callable[[], Core], name: str, rng: random.Random) -> None:
    """Feed one mutated recording."""
    core = build()
    ended = False
    for piece in mutate(load_chunks(core, name), rng):
        events = core.receive_data(piece)
        if ended and events:
            raise AssertionError(f"{events} after the end")
        ended = ended or any(isinstance(event, LAST_EVENTS) for event in events)
        if rng.random() < 0.2:
            act(core, rng)
        core.data_to_send()
    events = core.receive_eof()
    if ended and events:
        raise AssertionError(f"{events} after the end")


def main(seconds: float) -> int:
    """Fuzz for so long; an exception ends it, with the round that made it."""
    seed = int(os.environ.get("SEED") or time.time_ns())
    print(f"SEED={seed}", flush=True)
    rng = random.Random(seed)
    deadline = time.monotonic() + seconds
    tracemalloc.start()
    rounds = 0
    while time.monotonic() < deadline:
        build, names = rng.choice(CORES)
        name = rng.choice(names)
        state = rng.getrandbits(64)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        try:
            run_once(build, name, random.Random(state))
            kept = tracemalloc.get_traced_memory()[1] - before
            if kept > MAX_KEPT_BYTES:
                raise AssertionError(f"{kept} bytes")  # noqa: TRY301 - reported the same way
        except Exception:
            print(f"round {rounds}: {type(build()).__name__} on {name}, state {state}")
            raise
        rounds += 1
    print(f"{rounds} rounds, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
