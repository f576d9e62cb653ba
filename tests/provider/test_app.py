"""A whole peering between two fake API servers, from lock to signal."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provider.app import Application, build_policy, identify_peering, read_mapping_state
from provider.config import Config
from provider.configuration import load_config
from provider.errors import MissingRightsError, StartError
from provider.labels import HOME_POD_UID
from provider.mapping.split import SliceAssignment
from provider.node_plan import build_mapping
from tests.fakes.api_server import ApiCall, FakeApiServer
from tests.fakes.physical_nodes import raw_node
from tests.provider.test_configuration import FLAGS
from tests.provider.values import PEERING, build_home_pod
from vkubelet.errors import ShutdownRequested
from vkubelet.kube.objects import LEASES, NODES, PODS, KubeObject

pytestmark = pytest.mark.virtual_time

SYSTEM = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "kube-system", "uid": PEERING.home_uid},
}


@dataclass
class World:
    """Both sides, and the process."""

    home: FakeApiServer
    remote: FakeApiServer
    folder: Path

    def build(self, **sections: dict[str, Any]) -> Application:
        config = Config.model_validate(
            {
                "home": {"kubeconfig": self.home.write_kubeconfig(), "cluster": "home"},
                "remote": {"cluster": "cloud", "kubeconfig": self.remote.write_kubeconfig()},
                "namespaces": {"names": ["demo"]},
                "kubelet": {
                    "address": "127.0.0.1",
                    "ports": "22000-22099",
                    "certificates": "self-signed",
                },
                "process": {"healthAddress": "127.0.0.1:0", "dataDir": self.folder},
                **sections,
            }
        )
        return Application(config, build_mapping(config.nodes, config.remote.cluster))

    def cpu(self, node: str) -> str:
        amounts: dict[str, str] = self.home.get(NODES, "", node)["status"]["allocatable"]
        return amounts["cpu"]


@asynccontextmanager
async def open_world(folder: Path) -> AsyncIterator[World]:
    async with FakeApiServer() as home, FakeApiServer() as remote:
        home.put(SYSTEM)
        remote.put(raw_node("n1", {"zone": "a"}))
        remote.put(raw_node("n2", {"zone": "b"}))
        yield World(home, remote, folder)


@asynccontextmanager
async def running(application: Application) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(application.run())
        await asyncio.sleep(30)
        assert not task.done()
        yield
        task.cancel()


async def test_registers_nodes_and_gives_the_lock_back_at_a_signal(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        application = world.build(nodes={"mapping": "per-node"})

        async def stop() -> None:
            await asyncio.sleep(30)
            lease = world.home.get(LEASES, "kube-system", "vkubelet-cloud")
            assert str(os.getpid()) in lease["spec"]["holderIdentity"]
            names = {node["metadata"]["name"] for node in world.home.objects(NODES)}
            assert names == {"cloud-n1", "cloud-n2"}
            os.kill(os.getpid(), signal.SIGTERM)

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(stop())
                await application.run()

        with pytest.raises(ExceptionGroup) as caught:
            await run()
        assert caught.group_contains(ShutdownRequested)
        lease = world.home.get(LEASES, "kube-system", "vkubelet-cloud")
        assert lease["spec"]["holderIdentity"] == ""
        assert len(world.home.objects(NODES)) == 2


async def test_what_is_free_is_right_from_the_first_write_after_a_restart(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        container = {"name": "main", "image": "any", "resources": {"requests": {"cpu": "1"}}}
        pod = build_home_pod(containers=[container])
        world.home.put(pod)
        async with running(world.build()):
            remote_pod = world.remote.get(PODS, "demo-home", "web")
            assert remote_pod["metadata"]["labels"][HOME_POD_UID] == "uid-web"
            spec = {**remote_pod["spec"], "nodeName": "n1"}
            world.remote.put({**remote_pod, "spec": spec})
            await asyncio.sleep(5)
            assert world.cpu("cloud") == "8"
        written: list[str] = []

        def note(call: ApiCall) -> None:
            amounts = (call.body or {}).get("status", {}).get("allocatable", {})
            written.append(amounts.get("cpu", ""))

        before = len(world.home.requests)
        async with running(world.build()):
            assert world.cpu("cloud") == "8"
        for call in world.home.requests[before:]:
            if call.what == "patch nodes/status":
                note(call)
        assert set(written) <= {"", "8"}


async def test_foreign_pods_may_be_left_uncounted(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        container = {"name": "main", "resources": {"requests": {"cpu": "3"}}}
        world.remote.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "theirs", "namespace": "x"},
                "spec": {"nodeName": "n1", "containers": [container]},
            }
        )
        async with running(world.build()):
            assert world.cpu("cloud") == "5"
        async with running(world.build(capacity={"foreignUse": "ignore"})):
            await asyncio.sleep(5)
            assert world.cpu("cloud") == "8"
            pods = [call for call in world.remote.requests if call.what == "watch pods"]
            assert pods[-1].resource.namespace == "demo-home"


async def test_rights_that_are_missing_end_it(tmp_path: Path) -> None:
    def refuse(call: ApiCall) -> KubeObject:
        attributes = call.body["spec"]["resourceAttributes"]
        return {**call.body, "status": {"allowed": attributes["resource"] != "pods"}}

    async with open_world(tmp_path) as world:
        world.remote.handle("create selfsubjectaccessreviews", refuse)
        with pytest.raises(ExceptionGroup) as caught:
            await world.build().run()
        assert caught.group_contains(MissingRightsError, match="--foreign-use ignore")
        assert world.home.objects(NODES) == []


async def test_home_credentials_that_are_not_accepted_end_it(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        world.home.fail_next("get namespaces", 403, reason="Forbidden")
        with pytest.raises(ExceptionGroup) as caught:
            await world.build().run()
        assert caught.group_contains(StartError, match="home credentials aren't accepted")


async def test_home_is_known_by_the_uid_of_kube_system() -> None:
    async with FakeApiServer() as home, home.client("home") as client:
        home.put(SYSTEM)
        peering = await identify_peering(client, None, "cloud")
        assert (peering.home_uid, peering.home_cluster) == (PEERING.home_uid, "uid")


async def test_names_and_slices_are_read_off_our_nodes() -> None:
    slices = '{"parent":"cluster","index":1,"plain":false,"members":["n1"]}'
    node = raw_node("cloud-1", {**PEERING.labels})
    node["metadata"]["annotations"] = {
        "vkubelet.io/group": "cluster",
        "vkubelet.io/slice-members": slices,
    }
    async with FakeApiServer() as home, home.client("home") as client:
        home.put(node)
        home.put(raw_node("other"))
        state = await read_mapping_state(client, PEERING)
        assert state.names == {"cloud-1": "cluster"}
        assert state.assignments == {"cluster": SliceAssignment(plain=False, slots={"n1": 1})}


def test_what_is_configured_is_what_the_kubelet_goes_by() -> None:
    flags = {
        "--stream-idle-timeout": "never",
        "--stream-creation-timeout": "9s",
        "--unschedulable-timeout": "7m",
        "--remote-lost-timeout": "never",
    }
    config = load_config(Config, file=None, environment={}, flags={**FLAGS, **flags})
    policy = build_policy(config, PEERING)
    assert policy.stream_idle_seconds == 0
    assert policy.stream_creation_seconds == 9
    assert policy.unschedulable_timeout_seconds == 420
    assert policy.lost_timeout_seconds is None
