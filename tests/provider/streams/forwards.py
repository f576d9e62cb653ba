"""Connecting to ports, as the tests do it."""

from contextlib import AbstractAsyncContextManager

from provider.streams.relay import RemoteStreams
from vkubelet.interface import ByteStream
from vkubelet.kube.objects import NamespacedName

KEY = NamespacedName("shop-home", "web")


def connect(
    remote: RemoteStreams, port: int = 80, uid: str = "uid-1"
) -> AbstractAsyncContextManager[ByteStream]:
    return remote.port_forward(KEY, port, home_namespace="shop", home_uid=uid)


async def read_all(stream: ByteStream) -> bytes:
    read = bytearray()
    while data := await stream.read():
        read += data
    return bytes(read)
