"""A port that answers, and the Node that leads to it."""

import socket
import ssl

import aiohttp
import pytest

from provider.checkup.probe import listen, make_node
from vkubelet.config import PortRange


def find_ports() -> PortRange:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        first = probe.getsockname()[1]
    return PortRange(first=first, last=min(first + 20, 65535))


async def test_it_answers_by_tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with (
        listen("127.0.0.1", find_ports()) as port,
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}/healthz", ssl=context) as response,
    ):
        assert (response.status, await response.text()) == (200, "ok")


async def test_who_hangs_up_does_no_harm() -> None:
    async with listen("127.0.0.1", find_ports()) as port:
        with socket.create_connection(("127.0.0.1", port)):
            pass


async def test_the_first_free_port_is_taken() -> None:
    ports = find_ports()
    async with listen("127.0.0.1", ports) as first, listen("127.0.0.1", ports) as second:
        assert first < second
        assert second in ports


async def test_no_port_is_free() -> None:
    ports = find_ports()
    one = PortRange(first=ports.first, last=ports.first)
    async with listen("127.0.0.1", one):
        with pytest.raises(OSError, match="in use"):
            async with listen("127.0.0.1", one):
                pass


def test_nothing_is_bound_to_the_node() -> None:
    node = make_node("192.0.2.1", 10250)
    assert node["metadata"]["name"].startswith("vkubelet-check-")
    assert node["spec"]["unschedulable"] is True
    assert {taint["effect"] for taint in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
    assert node["status"]["addresses"] == [{"type": "InternalIP", "address": "192.0.2.1"}]
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
