"""Versions, clocks and who we are."""

from datetime import UTC, datetime, timedelta

import pytest

from provider.checkup.servers import check_api, check_clocks, check_versions, measure_skew
from tests.fakes.api_server import ApiCall
from tests.fakes.physical_nodes import raw_node
from tests.provider.checkup.world import World, open_world, serve_identity, show
from vkubelet.kube.objects import KubeObject
from vkubelet.times import format_time, utc_now


async def test_who_answers_and_who_we_are() -> None:
    async with open_world() as world:
        finding = await check_api(world.home_client)
        assert finding.message == f"{world.home.url} answers, v1.37.2; we are admin"


async def test_versions_that_go_together() -> None:
    async with open_world() as world:
        assert show(await check_versions(world.around())) == ["ok: home v1.37.2, remote v1.37.2"]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("v1.29.3", "failure: home: Kubernetes v1.29.3 is too old"),
        ("v1.38.0-gke.1", "warning: home: Kubernetes v1.38.0-gke.1 is newer than what this"),
        ("unknown", "warning: home: the version unknown isn't understood"),
    ],
)
async def test_a_version_that_is_not_supported(version: str, said: str) -> None:
    async with open_world() as world:
        serve_identity(world.home, version)
        (found,) = show(await check_versions(world.around()))
        assert found.startswith(said)


@pytest.mark.parametrize(
    ("kubelet", "said"),
    [
        ("v1.38.0", "newer than home's API server (v1.37.2)"),
        ("v1.33.9", "more than 3 versions older than home's API server (v1.37.2)"),
        ("v1.34.0", "ok: home v1.37.2"),
        ("v1.37.9", "ok: home v1.37.2"),
    ],
)
async def test_kubelets_behind_virtual_nodes(kubelet: str, said: str) -> None:
    async with open_world() as world:
        world.remote.put(raw_node("n1", nodeInfo={"kubeletVersion": kubelet}))
        world.remote.put(raw_node("n2", nodeInfo={"kubeletVersion": kubelet}))
        (found,) = show(await check_versions(world.around()))
        assert said in found


def set_clock(world: World, seconds: float) -> None:
    def review(call: ApiCall) -> KubeObject:
        time = format_time(utc_now() + timedelta(seconds=seconds))
        return {**call.body, "metadata": {"creationTimestamp": time}}

    world.remote.handle("create selfsubjectreviews", review)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "ok: the clocks agree"),
        (60, "warning: remote: its clock is "),
        (-60, "warning: remote: its clock is "),
        (600, "failure: remote: its clock is "),
    ],
)
async def test_clocks(seconds: float, said: str) -> None:
    async with open_world() as world:
        set_clock(world, seconds)
        (found,) = show(await check_clocks(world.around()))
        assert found.startswith(said)
        if seconds:
            assert ("ahead of" if seconds > 0 else "behind") in found


async def test_a_server_that_does_not_tell_its_time() -> None:
    async with open_world() as world:
        world.home.fail_next("create selfsubjectreviews", 403, reason="Forbidden")
        (found,) = show(await check_clocks(world.around()))
        assert found == "skipped: home: the API server doesn't tell its time"


@pytest.mark.parametrize(
    ("there", "ahead"),
    [(9.0, -0.5), (10.0, 0.0), (11.0, 0.0), (20.0, 9.0), (0.0, -9.5)],
)
def test_whole_seconds_between_two_moments(there: float, ahead: float) -> None:
    start = datetime(2027, 1, 1, tzinfo=UTC)
    before, after = start + timedelta(seconds=10.5), start + timedelta(seconds=11)
    skew = measure_skew(before, start + timedelta(seconds=there), after)
    assert skew.total_seconds() == ahead
