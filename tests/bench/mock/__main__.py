"""
`python -m tests.bench.mock`: two mock API servers, home and remote, in a process of their own.

They speak TLS, and have namespaces `team-0` and so on at home. A line of JSON tells the kubeconfigs
once they listen. What a bench asks of them goes to the home server, under `/bench/`.
"""

import argparse
import asyncio
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import uvloop

from tests.bench.mock.api import MockApi
from tests.bench.mock.control import Control
from tests.bench.mock.pods import Course, HomePods, RemoteNodes
from tests.bench.remote_api import build_node, node_name
from tests.cluster.pki import Authority, build_kubeconfig
from vkubelet.kube.objects import CONFIG_MAPS, NAMESPACES, NODES

NODES_COUNT = 100
NAMESPACES_COUNT = 10


def fill(api: MockApi, namespaces: Sequence[str], client_ca: str) -> None:
    """Put in what every cluster has."""
    for name in ("default", "kube-system", "kube-node-lease", *namespaces):
        body = {"metadata": {"name": name}, "status": {"phase": "Active"}}
        api.collection(NAMESPACES).put(("", name), body)
        root = {"metadata": {"namespace": name, "name": "kube-root-ca.crt"}, "data": {"ca.crt": ""}}
        api.collection(CONFIG_MAPS).put((name, "kube-root-ca.crt"), root)
    key = ("kube-system", "extension-apiserver-authentication")
    metadata = dict(zip(("namespace", "name"), key, strict=True))
    body = {"metadata": metadata, "data": {"client-ca-file": client_ca}}
    api.collection(CONFIG_MAPS).put(key, body)


async def listen(api: MockApi, authority: Authority, folder: Path, name: str) -> Path:
    """Listen; returns the kubeconfig."""
    pair = authority.issue_server(name, ["127.0.0.1"])
    certificate, key = pair.write(folder, name)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(api.connect, "127.0.0.1", 0, ssl=context, backlog=1000)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    kubeconfig = folder / f"{name}.kubeconfig"
    kubeconfig.write_text(
        build_kubeconfig(url, authority.certificate, authority.issue_client("bench"))
    )
    return kubeconfig


async def serve(folder: Path) -> None:
    """Serve until killed."""
    authority = Authority("bench")
    home, remote = MockApi(), MockApi()
    teams = [f"team-{number}" for number in range(NAMESPACES_COUNT)]
    fill(home, teams, authority.certificate.decode())
    fill(remote, (), authority.certificate.decode())
    for number in range(NODES_COUNT):
        node = build_node(number)
        remote.collection(NODES).put(("", node_name(number)), node)
    courses: dict[str, Course] = {}
    RemoteNodes(remote, NODES_COUNT, courses)
    control = Control(home, remote, HomePods(home, courses, NAMESPACES_COUNT), courses)
    files = [
        str(await listen(api, authority, folder, name))
        for api, name in ((home, "home"), (remote, "remote"))
    ]
    print(msgspec.json.encode(files).decode(), flush=True)
    async with asyncio.TaskGroup() as group:
        for api in (home, remote):
            group.create_task(api.send_bookmarks())
        group.create_task(control.run())


def main(argv: Sequence[str]) -> None:
    """Run the servers."""
    parser = argparse.ArgumentParser(prog="mock")
    parser.add_argument("folder", type=Path)
    uvloop.run(serve(parser.parse_args(argv).folder))


if __name__ == "__main__":
    main(sys.argv[1:])
