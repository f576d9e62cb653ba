"""Rights that are asked for, and what is said of missing ones."""

import asyncio

import pytest

from provider.rights import MAX_ASKED, Right, explain_missing, find_missing_rights, remote_rights
from tests.fakes.api_server import ApiCall, FakeApiServer
from vkubelet.kube.objects import NODES, PODS, KubeObject


def test_rights_on_pods_are_wanted_in_the_namespaces_that_are_followed() -> None:
    everywhere = set(map(str, remote_rights()))
    assert {"list pods", "watch pods", "create namespaces", "list nodes"} <= everywhere
    assert {"watch secrets", "update configmaps", "list events"} <= everywhere
    scoped = set(map(str, remote_rights(["a", "b"])))
    assert {"list pods in namespace a", "watch pods in namespace b", "list nodes"} <= scoped
    assert not {"list pods", "create namespaces"} & scoped


def test_advice_where_a_flag_does_without() -> None:
    assert "--foreign-use ignore" in explain_missing([Right("list", PODS)])
    assert explain_missing([Right("list", NODES), Right("create", PODS)]) == ""
    assert explain_missing([Right("list", PODS, namespace="a")]) == ""


async def test_each_right_is_asked_for() -> None:
    def review(call: ApiCall) -> KubeObject:
        attributes = call.body["spec"]["resourceAttributes"]
        return {**call.body, "status": {"allowed": attributes["verb"] != "create"}}

    async with FakeApiServer() as fake, fake.client("remote") as client:
        fake.handle("create selfsubjectaccessreviews", review)
        missing = await find_missing_rights(client, [Right("list", PODS), Right("create", PODS)])
        assert [str(right) for right in missing] == ["create pods"]


@pytest.mark.virtual_time
async def test_few_are_asked_for_at_once() -> None:
    asked = most = 0

    async def review(call: ApiCall) -> KubeObject:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(1)
        asked -= 1
        return {**call.body, "status": {"allowed": True}}

    async with FakeApiServer() as fake, fake.client("remote") as client:
        fake.handle("create selfsubjectaccessreviews", review)
        assert await find_missing_rights(client, remote_rights()) == []
    assert most == MAX_ASKED
