"""
`python -m tests.bench.remote_api`: a remote API server of any size, in a process of its own.

It serves nodes and pods that never were: their JSON is made while it's sent, with all that real
ones carry. It prints its URL. `POST /bench/events?count=N` changes N pods, one after the other, and
answers when all watches have been told.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence

import msgspec
import uvloop
from aiohttp import web

VERSION = 1000
CHUNK_BYTES = 64 * 1024
SIZES = (("100m", "128Mi"), ("250m", "256Mi"), ("500m", "1Gi"), ("1", "2Gi"), ("2", "4Gi"))


def _managed_fields(manager: str, size: int) -> list[dict[str, object]]:
    fields: dict[str, object] = {f"f:field-{number}": {} for number in range(size)}
    return [{"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": fields}}]


def node_name(number: int) -> str:
    """The name of a physical node."""
    return f"node-{number:05d}"


def build_node(number: int) -> dict[str, object]:
    """Build a node as a kubelet keeps it, images among it."""
    name = node_name(number)
    amounts = {
        "cpu": "64",
        "memory": "256Gi",
        "pods": "110",
        "ephemeral-storage": "900Gi",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "reason": f"Kubelet{kind}",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [{"names": [f"registry.example/team/image-{i}:v1"], "sizeBytes": i} for i in range(50)]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "m5.16xlarge",
        "topology.kubernetes.io/region": "eu-1",
        "topology.kubernetes.io/zone": f"eu-1{'abc'[number % 3]}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(VERSION),
            "labels": labels,
            "managedFields": _managed_fields("kubelet", 40),
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"bench:///{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "images": images,
            "nodeInfo": {"kubeletVersion": "v1.37.2", "operatingSystem": "linux"},
        },
    }


def build_pod(number: int, nodes: int, version: int = VERSION) -> dict[str, object]:
    """Build a pod of somebody's, about 5 KiB of it."""
    cpu, memory = SIZES[(number + version) % len(SIZES)]
    container = {
        "name": "main",
        "image": "registry.example/team/application:v1.2.3",
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(20)],
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    sidecar = {"name": "proxy", "image": "registry.example/proxy:v1", "resources": {}}
    statuses = [
        {"name": name, "ready": True, "restartCount": 0, "imageID": "sha256:" + "0" * 64}
        for name in ("main", "proxy")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"application-{number:06d}-7d4b9c6f5-x2x8z",
            "namespace": f"team-{number % 200:03d}",
            "uid": f"10000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(version),
            "labels": {"app": "application", "pod-template-hash": "7d4b9c6f5"},
            "annotations": {"example.com/checksum": "0" * 64},
            "managedFields": _managed_fields("kube-controller-manager", 60),
        },
        "spec": {
            "nodeName": node_name(number % nodes),
            "containers": [container, sidecar],
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True"}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": statuses,
        },
    }


def encode_event(kind: str, body: object) -> bytes:
    """Write a line of a watch."""
    return msgspec.json.encode({"type": kind, "object": body}) + b"\n"


class RemoteApi:
    """The server."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._nodes = nodes
        self._pods = pods
        self._version = VERSION
        self._watches: dict[web.StreamResponse, str] = {}

    def build_application(self) -> web.Application:
        """Say what is served; of other kinds there are none."""
        application = web.Application()
        application.add_routes(
            [
                web.get("/readyz", self._handle_ready),
                web.get("/api/v1/nodes", self._handle_nodes),
                web.get("/api/v1/pods", self._handle_pods),
                web.post(
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", self._handle_review
                ),
                web.post("/bench/events", self._handle_events),
                web.get("/api/v1/{what}", self._handle_others),
            ]
        )
        return application

    async def _handle_ready(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _handle_review(self, request: web.Request) -> web.Response:
        return web.json_response({**await request.json(), "status": {"allowed": True}})

    async def _handle_nodes(self, request: web.Request) -> web.StreamResponse:
        return await self._watch(request, "nodes", map(build_node, range(self._nodes)), "Node")

    async def _handle_pods(self, request: web.Request) -> web.StreamResponse:
        is_all = not request.query.get("labelSelector")
        count = self._pods if is_all else 0
        pods = (build_pod(number, self._nodes) for number in range(count))
        return await self._watch(request, "pods" if is_all else "own pods", pods, "Pod")

    async def _handle_others(self, request: web.Request) -> web.StreamResponse:
        return await self._watch(request, request.match_info["what"], iter(()), "Any")

    async def _watch(
        self, request: web.Request, what: str, objects: Iterator[object], kind: str
    ) -> web.StreamResponse:
        if request.query.get("watch") != "true":
            raise web.HTTPBadRequest(text="only watches are served")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            pending = bytearray()
            for body in objects:
                pending += encode_event("ADDED", body)
                if len(pending) > CHUNK_BYTES:
                    await response.write(bytes(pending))
                    pending.clear()
            end = {"k8s.io/initial-events-end": "true"}
            metadata = {"resourceVersion": str(self._version), "annotations": end}
            pending += encode_event("BOOKMARK", {"kind": kind, "metadata": metadata})
            await response.write(bytes(pending))
        self._watches[response] = what
        try:
            await asyncio.Event().wait()
        finally:
            del self._watches[response]
        return response

    async def _handle_events(self, request: web.Request) -> web.Response:
        listeners = [watch for watch, what in self._watches.items() if what == "pods"]
        count, pending = int(request.query["count"]), bytearray()
        for number in range(count):
            self._version += 1
            pod = build_pod(number * 7919 % self._pods, self._nodes, self._version)
            pending += encode_event("MODIFIED", pod)
            if len(pending) > CHUNK_BYTES or number == count - 1:
                for listener in listeners:
                    await listener.write(bytes(pending))
                pending.clear()
        return web.Response(text=str(self._version))


async def serve(nodes: int, pods: int) -> None:
    """Serve until killed."""
    application = RemoteApi(nodes, pods).build_application()
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


def main(argv: Sequence[str]) -> None:
    """Run the server."""
    parser = argparse.ArgumentParser(prog="remote_api")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, default=0)
    arguments = parser.parse_args(argv)
    uvloop.run(serve(arguments.nodes, arguments.pods))


if __name__ == "__main__":
    main(sys.argv[1:])
