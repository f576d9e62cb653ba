"""Rights that are asked for, and what is said of missing ones."""

import asyncio

import pytest

from provider.rights import (
    MAX_ASKED,
    Identity,
    Right,
    dependent_rights,
    explain_missing,
    find_missing_rights,
    home_rights,
    remote_rights,
    removal_rights_at_home,
    removal_rights_in_remote,
)
from tests.fakes.api_server import ApiCall, FakeApiServer
from vkubelet.kube.objects import NODES, PODS, KubeObject, NamespacedName


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


async def test_somebody_elses_rights() -> None:
    identity = Identity.of_service_account(NamespacedName("a", "b"))

    def review(call: ApiCall) -> KubeObject:
        return {**call.body, "status": {"allowed": call.body["spec"]["user"] == identity.user}}

    async with FakeApiServer() as fake, fake.client("home") as client:
        fake.handle("create subjectaccessreviews", review)
        assert await find_missing_rights(client, [Right("list", PODS)], identity) == []
        other = Identity("somebody")
        assert await find_missing_rights(client, [Right("list", PODS)], other) != []
        assert fake.calls("create selfsubjectaccessreviews") == []


def texts(**settings: object) -> set[str]:
    given = {
        "lock": NamespacedName("vk", "vkubelet-cloud"),
        "signer_name": None,
        "approves": False,
        "watches_namespaces": False,
        **settings,
    }
    return set(map(str, home_rights(**given)))  # type: ignore[arg-type] # by name


def test_what_is_needed_at_home_depends_on_what_is_asked_for() -> None:
    least = texts()
    assert {
        "create pods/eviction",
        "update leases.coordination.k8s.io vkubelet-cloud in namespace vk",
    } <= least
    assert texts(watches_namespaces=True) - least == {"list namespaces", "watch namespaces"}
    signed = texts(signer_name="x/y")
    assert signed - least == {
        f"{verb} certificatesigningrequests.certificates.k8s.io"
        for verb in ("create", "list", "watch")
    }
    assert texts(signer_name="x/y", approves=True) - signed == {
        "update certificatesigningrequests/approval.certificates.k8s.io",
        "approve signers.certificates.k8s.io x/y",
    }
    named = texts(namespaces=["a", "b"])
    assert named - least == {f"create pods/eviction in namespace {name}" for name in "ab"}
    assert least - named == {"create pods/eviction"}


def test_rights_on_dependents() -> None:
    rights = set(map(str, dependent_rights("a", tokens=False)))
    assert "watch secrets in namespace a" in rights
    assert "list configmaps in namespace a" in rights
    more = set(map(str, dependent_rights("a", tokens=True)))
    assert more - rights == {"create serviceaccounts/token in namespace a"}


def test_what_the_removal_of_namespaces_takes() -> None:
    at_home = [str(right) for right in removal_rights_at_home(["a", "b"])]
    assert at_home == ["get namespaces a", "get namespaces b"]
    assert [str(right) for right in removal_rights_at_home()] == ["get namespaces"]
    there = [str(right) for right in removal_rights_in_remote()]
    assert there == ["list namespaces", "delete namespaces", "list *.*"]
