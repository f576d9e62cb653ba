"""`vkubelet teardown` from question to last line, on two fake API servers."""

import asyncio
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest

from provider.commands.teardown import main, tear_down
from provider.config import HomeTeardownConfig, TeardownConfig
from provider.errors import ConfigError, StartError
from tests.provider.teardown.worlds import World, build, open_world
from tests.provider.values import PEERING
from vkubelet.kube.objects import LEASES, NAMESPACES

pytestmark = pytest.mark.virtual_time


def load(world: World, **remote: Any) -> TeardownConfig:
    return TeardownConfig.model_validate(
        {
            "home": {"kubeconfig": world.home.write_kubeconfig()},
            "remote": {
                "cluster": "cloud",
                "kubeconfig": world.remote.write_kubeconfig(),
                **remote,
            },
        }
    )


def leave_peering(world: World, *pods: str) -> None:
    system = build("Namespace", "kube-system", ours=False, metadata={"uid": PEERING.home_uid})
    world.home.put(system, NAMESPACES)
    world.leave_peering(*pods)
    world.home.put(build_lock(""))
    world.run_remote_kubelet()


def build_lock(holder: str, renewed: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return build("Lease", "vkubelet-cloud", "kube-system", ours=False, spec=spec)


async def test_with_yes_all_of_it_goes_and_the_lock_too(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_world() as world:
        leave_peering(world, "web")
        assert await tear_down(load(world), yes=True, dry_run=False) == 0
        assert world.names(world.home) == ["Node real", "Namespace kube-system"]
        said = capsys.readouterr().out.splitlines()
        assert "  home: Node cloud" in said
        assert "  remote: Namespace demo-home" in said
        assert said[-1] == "done"
        assert await tear_down(load(world), yes=True, dry_run=False) == 0
        assert capsys.readouterr().out == "nothing of the peering with cloud is left\n"


async def test_a_dry_run_only_looks(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_world() as world:
        leave_peering(world, "web")
        before = world.names(world.home), world.names(world.remote)
        assert await tear_down(load(world), yes=False, dry_run=True) == 0
        assert (world.names(world.home), world.names(world.remote)) == before
        assert "  home: Pod demo/web, on a virtual node" in capsys.readouterr().out.splitlines()
        verbs = {call.verb for fake in (world.home, world.remote) for call in fake.requests}
        assert verbs <= {"get", "list", "GET"}


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
async def test_it_asks(monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(answer))
    async with open_world() as world:
        leave_peering(world)
        assert await tear_down(load(world), yes=False, dry_run=False) == code
        assert ("Node cloud" in world.names(world.home)) is (code == 1)


async def test_a_process_that_runs_is_named() -> None:
    async with open_world() as world, asyncio.TaskGroup() as group:
        leave_peering(world, "web")
        world.home.put(build_lock("host_7"))
        task = group.create_task(_fails(world))
        await asyncio.sleep(5)
        world.home.put(build_lock("host_7", datetime.now(UTC).isoformat()))
        assert "a process of this peering runs (host_7 renews Lease" in await task
        assert "Node cloud" in world.names(world.home)


async def _fails(world: World) -> str:
    with pytest.raises(StartError) as caught:
        await tear_down(load(world), yes=True, dry_run=False)
    return str(caught.value)


async def test_a_process_that_was_killed_is_waited_for() -> None:
    async with open_world() as world:
        leave_peering(world)
        world.home.put(build_lock("host_7"))
        assert await tear_down(load(world), yes=True, dry_run=False) == 0
        assert world.home.find(LEASES, "kube-system", "vkubelet-cloud") is None


async def test_a_remote_cluster_that_is_gone() -> None:
    async with open_world() as world:
        leave_peering(world, "web")
        config = load(world)
        await world.remote.stop()
        with pytest.raises(StartError, match=r"can't be reached: .* --home-only"):
            await tear_down(config, yes=True, dry_run=False)
        home_only = HomeTeardownConfig.model_validate(
            {"home": config.home.model_dump(by_alias=True), "remote": {"cluster": "cloud"}}
        )
        assert await tear_down(home_only, yes=True, dry_run=False) == 0
        assert "Node cloud" not in world.names(world.home)


async def test_what_fails_midway_says_that_it_can_be_run_again() -> None:
    async with open_world() as world:
        leave_peering(world)
        world.home.fail_next("delete nodes", 403, reason="Forbidden", message="not you")
        with pytest.raises(StartError, match="not you; what is removed is removed, run it again"):
            await tear_down(load(world), yes=True, dry_run=False)
        assert await tear_down(load(world), yes=True, dry_run=False) == 0


def test_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO())
    config = HomeTeardownConfig.model_validate({"remote": {"cluster": "cloud"}})
    with pytest.raises(ConfigError, match="--yes is needed"):
        main(config, yes=False, dry_run=False)
