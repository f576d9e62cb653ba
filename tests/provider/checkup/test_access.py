"""Rights on both sides."""

from provider.checkup.access import check_home_rights, check_remote_rights
from provider.checkup.finding import Level
from tests.provider.checkup.world import allow_but, open_world, show
from vkubelet.kube.objects import NamespacedName


async def test_all_of_them() -> None:
    async with open_world() as world:
        around = world.around()
        (home,) = show(await check_home_rights(around))
        (remote,) = show(await check_remote_rights(around))
        assert home.startswith("ok: all ")
        assert home.endswith(" rights are there for the home credentials")
        assert remote.endswith(" rights are there for the remote credentials")


async def test_each_that_is_missing_is_named() -> None:
    async with open_world() as world:
        allow_but(world.home, "patch nodes/status", "create pods/eviction")
        allow_but(world.remote, "get pods/log")
        around = world.around()
        assert show(await check_home_rights(around)) == [
            "failure: the home credentials may not patch nodes/status",
            "failure: the home credentials may not create pods/eviction in namespace demo",
        ]
        (finding,) = await check_remote_rights(around)
        assert finding.message == "the remote credentials may not get pods/log"
        assert "docs/rbac/remote.yaml" in finding.advice


async def test_what_a_service_account_may() -> None:
    async with open_world() as world:
        allow_but(world.home, "list nodes")
        around = world.around(service_account=NamespacedName("vk", "cloud"))
        (found,) = show(await check_home_rights(around))
        assert found == "failure: service account vk/cloud may not list nodes"
        call = world.home.calls("create subjectaccessreviews")[0]
        assert call.body["spec"]["user"] == "system:serviceaccount:vk:cloud"
        assert "system:serviceaccounts:vk" in call.body["spec"]["groups"]
        leases = [
            call.body["spec"]["resourceAttributes"]["namespace"]
            for call in world.home.calls("create subjectaccessreviews")
            if call.body["spec"]["resourceAttributes"]["resource"] == "leases"
        ]
        assert set(leases) == {"kube-node-lease", "vk"}


async def test_rights_in_reflected_namespaces_are_only_warned_of() -> None:
    async with open_world() as world:
        allow_but(world.home, "watch secrets", "create serviceaccounts/token")
        around = world.around(pods={"apiAccess": "home", "homeApiServer": "api.example:6443"})
        fine, lacking = await check_home_rights(around)
        assert fine.level is Level.OK
        assert lacking.level is Level.WARNING
        assert "watch secrets in namespace demo, create serviceaccounts/token" in lacking.message


async def test_metrics_are_wanted_and_not_needed() -> None:
    async with open_world() as world:
        allow_but(world.remote, "list nodes.metrics.k8s.io")
        fine, lacking = await check_remote_rights(world.around())
        assert fine.level is Level.OK
        assert lacking.level is Level.WARNING
        assert lacking.message == "the remote credentials may not list nodes.metrics.k8s.io"


async def test_where_only_some_remote_namespaces_are_needed() -> None:
    async with open_world() as world:
        around = world.around(capacity={"foreignUse": "ignore"})
        await check_remote_rights(around)
        namespaces = {
            call.body["spec"]["resourceAttributes"].get("namespace", "")
            for call in world.remote.calls("create selfsubjectaccessreviews")
            if call.body["spec"]["resourceAttributes"]["resource"] == "pods"
        }
        assert namespaces == {"demo-home"}
