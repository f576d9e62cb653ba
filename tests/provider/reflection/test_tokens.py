"""Tokens of home: bound to the home pod, delivered, rotated, removed."""

import base64
import itertools
from datetime import timedelta
from typing import Any

import pytest

from provider.reflection.dependents import LINGER_SECONDS
from provider.translation.tokens import ApiAccess
from tests.fakes.api_server import ApiCall, ApiFailureError, FakeApiServer
from tests.provider.reflection.world import (
    NAMES,
    World,
    build_config_map,
    build_home_pod,
    clock,
    open_world,
    run_world,
    settle,
)
from vkubelet.errors import RefusedError
from vkubelet.interface import PodRef, Unblocked
from vkubelet.kube.objects import PODS, SECRETS, KubeObject
from vkubelet.times import format_time

pytestmark = pytest.mark.virtual_time

REQUEST = "create serviceaccounts/token"
NAME = NAMES.token("uid-web", "kube-api-access-x", 0)


def build_pod(*extra: dict[str, Any], **spec: Any) -> KubeObject:
    """A pod with the volume that admission injects, and more tokens in another."""
    sources: list[dict[str, Any]] = [
        {"serviceAccountToken": {"expirationSeconds": 3600, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt"}},
    ]
    volumes = [{"name": "kube-api-access-x", "projected": {"sources": sources}}]
    if extra:
        more = [{"serviceAccountToken": {"path": "t", **token}} for token in extra]
        volumes.append({"name": "more", "projected": {"sources": more}})
    return build_home_pod(volumes=volumes, **spec)


def give_tokens(home: FakeApiServer) -> None:
    """Have the home API server answer TokenRequests."""
    numbers = itertools.count(1)
    home.put(build_config_map("kube-root-ca.crt", ca="home"))

    def answer(call: ApiCall) -> KubeObject:
        life = timedelta(seconds=call.body["spec"]["expirationSeconds"])
        status = {
            "token": f"token-{next(numbers)}",
            "expirationTimestamp": format_time(clock() + life),
        }
        return {**call.body, "status": status}

    home.handle(REQUEST, answer)


def token_of(world: World, name: str = NAME) -> str:
    body = world.remote.get(SECRETS, "demo-r", name)
    return base64.b64decode(body["data"]["token"]).decode()


async def test_a_token_is_bound_to_the_home_pod_and_delivered_before_the_remote_one() -> None:
    async with open_world(ApiAccess.HOME) as world:
        give_tokens(world.home)
        await world.apply(build_pod(serviceAccountName="builder"))
        (call,) = world.home.calls(REQUEST)
        assert call.path == "/api/v1/namespaces/demo/serviceaccounts/builder/token"
        assert call.body["spec"] == {
            "audiences": [],
            "expirationSeconds": 3600,
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "web",
                "uid": "uid-web",
            },
        }
        assert token_of(world) == "token-1"
        made = [call.what for call in world.remote.calls("create *")]
        assert made.index("create secrets") < made.index("create pods")
        assert set(world.copies("ConfigMap")) == {"kube-root-ca.crt"}


async def test_audience_and_life_are_honoured_and_do_not_show_in_names() -> None:
    async with open_world(ApiAccess.HOME) as world:
        give_tokens(world.home)
        await world.apply(
            build_pod(
                {"audience": "https://a.b/c", "expirationSeconds": 600},
                {"audience": "https://a.b/d", "expirationSeconds": 600},
            )
        )
        asked = [
            (call.body["spec"]["audiences"], call.body["spec"]["expirationSeconds"])
            for call in world.home.calls(REQUEST)
        ]
        assert asked == [([], 3600), (["https://a.b/c"], 600), (["https://a.b/d"], 600)]
        names = {body["metadata"]["name"] for body in world.remote.objects(SECRETS)}
        assert names == {NAME, NAMES.token("uid-web", "more", 0), NAMES.token("uid-web", "more", 1)}
        assert "a.b" not in str(world.remote.objects(SECRETS))


async def test_a_token_is_replaced_at_four_fifths_of_its_life() -> None:
    async with open_world(ApiAccess.HOME) as world:
        give_tokens(world.home)
        await world.apply(build_pod({"expirationSeconds": 600}))
        await settle(470)
        assert len(world.home.calls(REQUEST)) == 2
        await settle(20)
        assert len(world.home.calls(REQUEST)) == 3
        assert token_of(world, NAMES.token("uid-web", "more", 0)) == "token-3"
        assert token_of(world) == "token-1"
        await settle(3600 * 0.8)
        assert token_of(world) != "token-1"


async def test_a_long_life_is_cut_to_a_day() -> None:
    async with open_world(ApiAccess.HOME) as world:
        give_tokens(world.home)
        year = 365 * 24 * 3600
        await world.apply(build_pod({"expirationSeconds": year}))
        name = NAMES.token("uid-web", "more", 0)
        annotations = world.remote.get(SECRETS, "demo-r", name)["metadata"]["annotations"]
        assert annotations["vkubelet.io/rotate-after"].startswith("2026-01-02T00:00:0")


async def test_a_restart_asks_for_no_token_and_still_rotates() -> None:
    async with FakeApiServer() as home, FakeApiServer() as remote:
        give_tokens(home)
        async with run_world(home, remote, access=ApiAccess.HOME) as world:
            await world.apply(build_pod())
        async with run_world(home, remote, access=ApiAccess.HOME) as world:
            await settle(1000)
            assert len(home.calls(REQUEST)) == 1
            await settle(3600 * 0.8)
            assert token_of(world) == "token-2"


async def test_a_token_that_somebody_removes_is_delivered_again() -> None:
    async with open_world(ApiAccess.HOME) as world:
        give_tokens(world.home)
        await world.apply(build_pod())
        world.remote.remove(SECRETS, "demo-r", NAME)
        await settle()
        assert token_of(world) == "token-2"


async def test_tokens_go_with_their_pod() -> None:
    async with open_world(ApiAccess.HOME) as world:
        give_tokens(world.home)
        pod = build_pod()
        await world.apply(pod)
        await world.end(pod)
        await settle(2 * LINGER_SECONDS)
        assert world.remote.objects(SECRETS) == []


async def test_tokens_of_pods_that_went_while_nobody_ran_are_removed() -> None:
    async with FakeApiServer() as home, FakeApiServer() as remote:
        give_tokens(home)
        async with run_world(home, remote, access=ApiAccess.HOME) as world:
            await world.apply(build_pod())
        home.remove(PODS, "demo", "web")
        remote.remove(PODS, "demo-r", "web")
        async with run_world(home, remote, access=ApiAccess.HOME):
            await settle(3 * LINGER_SECONDS)
            assert remote.objects(SECRETS) == []


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [
        (403, "Forbidden", "MissingRight: the right to create serviceaccounts/token"),
        (404, "NotFound", "ServiceAccountTokenFailed: no token for volume 'kube-api-access-x'"),
    ],
)
async def test_a_token_that_is_not_given_holds_the_pod_up_until_it_is(
    code: int, reason: str, said: str
) -> None:
    async with open_world(ApiAccess.HOME) as world:
        give_tokens(world.home)
        world.home.fail_next(REQUEST, code, reason=reason)
        with pytest.raises(RefusedError, match=said):
            await world.apply(build_pod())
        assert world.remote.objects(PODS) == []
        await settle(90)
        assert world.events_of(Unblocked) == [Unblocked(PodRef("demo", "web", "uid-web"))]
        await world.apply(build_pod())
        assert len(world.home.calls(REQUEST)) == 2


@pytest.mark.parametrize("failure", [ApiFailureError(500, "", "no"), ApiFailureError(403, "", "n")])
async def test_a_rotation_that_fails_is_tried_again(failure: ApiFailureError) -> None:
    async with open_world(ApiAccess.HOME) as world:
        give_tokens(world.home)
        await world.apply(build_pod())
        await settle(3600 * 0.79)
        world.home.fail_next(REQUEST, failure.code, reason=failure.reason, times=3)
        await settle(600)
        assert token_of(world) == "token-2"


@pytest.mark.parametrize("access", [ApiAccess.NONE, ApiAccess.REMOTE])
async def test_without_home_access_no_token_is_asked_for(access: ApiAccess) -> None:
    async with open_world(access) as world:
        give_tokens(world.home)
        await world.apply(build_pod({"audience": "x"}))
        await settle()
        assert world.home.calls(REQUEST) == []
        assert world.remote.objects(SECRETS) == []


async def test_tokens_go_when_they_are_not_delivered_any_more() -> None:
    async with FakeApiServer() as home, FakeApiServer() as remote:
        give_tokens(home)
        async with run_world(home, remote, access=ApiAccess.HOME) as world:
            await world.apply(build_pod())
        async with run_world(home, remote) as world:
            await world.apply(build_pod())
            await settle(3 * LINGER_SECONDS)
            assert remote.objects(SECRETS) == []
            assert len(home.calls(REQUEST)) == 1


async def test_tokens_are_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with open_world(ApiAccess.HOME) as world:
        give_tokens(world.home)
        await world.apply(build_pod())
        await settle(4000)
    assert "token-1" not in caplog.text
    assert base64.b64encode(b"token-1").decode() not in caplog.text
