"""All checks in a row."""

from pathlib import Path

from provider.checkup.checks import CheckOptions, run_checks
from provider.checkup.finding import CheckResult, Level
from provider.checkup.names import NAMES, POD
from provider.command_config import CheckConfig
from provider.node_plan import build_mapping
from tests.provider.checkup.world import open_world
from vkubelet.kube.objects import PODS


async def run(config: CheckConfig, options: CheckOptions) -> dict[str, CheckResult]:
    mapping = build_mapping(config.nodes, "cloud")
    return {result.name: result async for result in run_checks(config, mapping, options)}


async def test_all_in_order_and_nothing_is_changed() -> None:
    async with open_world() as world:
        results = await run(world.config(), CheckOptions())
        assert tuple(results) == tuple(name for name in NAMES if name != POD)
        failed = {
            name: result
            for name, result in results.items()
            if any(finding.level is Level.FAILURE for finding in result.findings)
        }
        assert failed == {}
        for fake in (world.home, world.remote):
            written = {call.what for call in fake.requests if call.verb not in ("get", "list")}
            assert written <= {
                "GET /version",
                "create selfsubjectreviews",
                "create selfsubjectaccessreviews",
            }


async def test_only_some() -> None:
    async with open_world() as world:
        results = await run(world.config(), CheckOptions(only=("clocks", "remote-api")))
        assert tuple(results) == ("remote-api", "clocks")


async def test_a_pod_only_if_asked_for() -> None:
    async with open_world() as world:
        results = await run(world.config(), CheckOptions(only=(POD,), image="any"))
        assert tuple(results) == (POD,)
        assert world.home.objects(PODS) == []


async def test_a_probe_in_place_of_the_nodes() -> None:
    async with open_world() as world:
        results = await run(world.config(), CheckOptions(only=("kubelet-port",), probe=True))
        (finding,) = results["kubelet-port"].findings
        assert finding.message == "--probe needs --kubelet-address"


async def test_a_side_that_cannot_be_reached_ends_it() -> None:
    async with open_world() as world:
        config = world.config()
        await world.remote.stop()
        results = await run(config, CheckOptions())
        assert tuple(results) == ("home-api", "remote-api")
        assert results["home-api"].findings[0].level is Level.OK
        assert results["remote-api"].findings[0].level is Level.FAILURE


async def test_a_kubeconfig_that_cannot_be_used() -> None:
    async with open_world() as world:
        config = world.config(remote={"kubeconfig": Path("/none")})
        results = await run(config, CheckOptions(only=("clocks",)))
        assert tuple(results) == ("remote-api",)
        assert "/none" in results["remote-api"].findings[0].message


async def test_what_keeps_a_check_from_looking_is_a_finding() -> None:
    async with open_world() as world:
        config = world.config()
        world.remote.fail_next("list nodes", 403, reason="Forbidden", message="not you")
        results = await run(config, CheckOptions(only=("virtual-nodes",)))
        (first,) = results["virtual-nodes"].findings
        assert (first.level, first.message) == (
            Level.SKIPPED,
            "it may not be looked at: not you",
        )
        world.home.fail_next("list nodes", 500, message="broken")
        results = await run(config, CheckOptions(only=("kubelet-port",)))
        (second,) = results["kubelet-port"].findings
        assert second.level is Level.FAILURE
        assert "broken" in second.message
