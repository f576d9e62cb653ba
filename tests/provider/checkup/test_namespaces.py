"""Namespaces on either side, and what pods may do in the remote ones."""

import pytest

from provider.checkup.namespaces import ENFORCE, check_namespaces, check_pod_security
from tests.provider.checkup.world import World, open_world, show
from tests.provider.values import PEERING


def put_remote(world: World, level: str = "", *, ours: bool = True) -> None:
    labels = dict(PEERING.labels) if ours else {}
    if level:
        labels[ENFORCE] = level
    metadata = {"name": "demo-home", "labels": labels}
    world.remote.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


async def test_all_there() -> None:
    async with open_world() as world:
        put_remote(world)
        assert show(await check_namespaces(world.around())) == ["ok: reflected: ['demo']"]


async def test_everything_is_reflected() -> None:
    async with open_world() as world:
        around = world.around(namespaces={"names": ["*"]})
        assert show(await check_namespaces(around)) == ["ok: all but Kubernetes' own are reflected"]


async def test_one_that_is_not_there() -> None:
    async with open_world() as world:
        around = world.around(namespaces={"names": ["demo", "nowhere", "kube-system"]})
        system, missing = await check_namespaces(around)
        assert "kube-system is never reflected" in system.message
        assert missing.message == "home has no namespace nowhere"
        assert missing.command == "kubectl create namespace nowhere"


async def test_namespaces_that_may_not_be_read() -> None:
    async with open_world() as world:
        await world.around().peering()
        around = world.around()
        await around.peering()
        world.home.fail_next("get namespaces", 403, reason="Forbidden", times=9)
        assert show(await check_namespaces(around)) == ["ok: reflected: ['demo']"]


async def test_a_selector_that_matches_none() -> None:
    async with open_world() as world:
        around = world.around(namespaces={"names": [], "selector": "team=none"})
        (found,) = show(await check_namespaces(around))
        assert found == "warning: no namespace has labels that match team=none"


async def test_a_remote_namespace_of_somebody_else() -> None:
    async with open_world() as world:
        put_remote(world, ours=False)
        (found,) = show(await check_namespaces(world.around()))
        assert found.startswith("failure: the remote namespace demo-home exists and isn't of")
        adopting = world.around(namespaces={"adopt": True})
        assert show(await check_namespaces(adopting)) == ["ok: reflected: ['demo']"]


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("baseline", "ok: "),
        ("restricted", "warning: the remote namespace demo-home enforces level restricted"),
        ("privileged", "warning: the remote namespace demo-home allows privileged pods"),
        ("", "warning: the remote namespace demo-home enforces no Pod Security level"),
    ],
)
async def test_levels(level: str, said: str) -> None:
    async with open_world() as world:
        put_remote(world, level)
        (found,) = show(await check_pod_security(world.around()))
        assert found.startswith(said)


async def test_no_remote_namespace_yet() -> None:
    async with open_world() as world:
        (found,) = show(await check_pod_security(world.around()))
        assert found.startswith("skipped: no remote namespace is there yet")
