"""Pods come and go, objects change and vanish, either API server fails: in the end all agrees."""

import contextlib
import random
from typing import Any

import pytest

from provider.reflection.dependents import LINGER_SECONDS
from tests.fakes.api_server import FakeApiServer
from tests.provider.reflection.world import (
    World,
    build_config_map,
    build_home_pod,
    open_world,
    settle,
)
from vkubelet.errors import RefusedError, RetryError
from vkubelet.kube.errors import KubeError
from vkubelet.kube.objects import CONFIG_MAPS, PODS

pytestmark = pytest.mark.virtual_time

NAMES = [f"o{number}" for number in range(4)]
CALLS = ["* configmaps", "create *", "update *", "delete *", "watch *"]


class Churn:
    """Changes on both sides, by chance but the same for each seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.living: dict[str, list[str]] = {}

    async def step(self) -> None:
        if self.chance.random() < 0.4:
            code = self.chance.choice([409, 429, 500, 503])
            self.side().fail_next(self.chance.choice(CALLS), code, reason="Conflict")
        if self.chance.random() < 0.1:
            self.side().cut_watches()
        self.edit()
        with contextlib.suppress(KubeError, RetryError, RefusedError):
            await self.start_or_end_pod()
        await settle(self.chance.random())

    def side(self) -> FakeApiServer:
        return self.chance.choice([self.world.home, self.world.remote])

    def edit(self) -> None:
        """Change, make or remove an object at home, as its immutability lets."""
        home, name = self.world.home, self.chance.choice(NAMES)
        known = home.find(CONFIG_MAPS, "demo", name)
        if known is not None and self.chance.random() < 0.25:
            home.remove(CONFIG_MAPS, "demo", name)
        elif known is None or not known.get("immutable"):
            body = build_config_map(name, a=str(self.chance.random()))
            home.put({**body, "immutable": True} if self.chance.random() < 0.2 else body)

    async def start_or_end_pod(self) -> None:
        uid = f"uid-{self.chance.randrange(6)}"
        if uid in self.living:
            await self.world.end(build_home_pod(uid, uid=uid))
            del self.living[uid]
            return
        needed = self.chance.sample(NAMES, 2)
        volumes = [{"name": name, "configMap": {"name": name, "optional": True}} for name in needed]
        await self.world.apply(build_home_pod(uid, uid=uid, volumes=volumes))
        self.living[uid] = needed

    def needed(self) -> set[str]:
        """What the remote pods need."""
        uids = [
            body["metadata"]["labels"]["vkubelet.io/home-pod-uid"]
            for body in self.world.remote.objects(PODS)
        ]
        return {name for uid in uids for name in self.living.get(uid, ())}

    async def end_all(self) -> None:
        for fake in (self.world.remote, self.world.home):
            for body in fake.objects(PODS):
                metadata = body["metadata"]
                fake.remove(PODS, metadata["namespace"], metadata["name"])
        await settle(5 * LINGER_SECONDS)


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_both_sides_agree_in_the_end(seed: int) -> None:
    async with open_world() as world:
        churn = Churn(world, seed)
        for _ in range(60):
            await churn.step()
        world.home.heal()
        world.remote.heal()
        await settle(5 * LINGER_SECONDS)
        assert contents_there(world, churn.needed()) == contents_at_home(world, churn.needed())
        await churn.end_all()
        assert world.copies("ConfigMap") == {}
        assert world.home.watch_count("watch configmaps") == 0


def contents_at_home(world: World, names: set[str]) -> dict[str, Any]:
    found = {body["metadata"]["name"]: body["data"] for body in world.home.objects(CONFIG_MAPS)}
    return {name: data for name, data in found.items() if name in names}


def contents_there(world: World, names: set[str]) -> dict[str, Any]:
    found = {name: body["data"] for name, body in world.copies("ConfigMap").items()}
    return {name: data for name, data in found.items() if name in names}
