"""Releases that clash, are upgraded, rolled back, uninstalled and taken up again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from provider.app import list_home_rights
from provider.config import NamespaceConfig, ServingConfig
from provider.rights import (
    dependent_rights,
    find_missing_rights,
    remote_rights,
    removal_rights_at_home,
)
from tests.charts.rendering import REMOTE, merge
from tests.charts.rules import Grant, as_grants
from tests.cluster.charts.installation import (
    NAMESPACE,
    Installation,
    installed,
    make_kubeconfig,
)
from tests.cluster.charts.rendered import apply, read_hooks
from tests.cluster.cluster import Cluster
from tests.cluster.helm import run_helm
from tests.cluster.mapping.pool import run_command
from tests.cluster.peering import PhysicalNodes, Vkubelet
from tests.cluster.product.cloud import find_remote_pods, get, get_pod, run_pod, wait_gone
from tests.cluster.waiting import wait_until
from vkubelet.kube.objects import NamespacedName

pytestmark = pytest.mark.cluster


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def release(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes, reflected: str
) -> AsyncIterator[Installation]:
    """A release of its own, as its tests change it."""
    async with installed(home, remote, "sky", [reflected]) as found:
        yield found


async def _run(release: Installation, process: Vkubelet, name: str, namespace: str) -> str:
    """Run a pod, and return the UID of what is behind it."""
    pod = await run_pod(
        release.home, name, namespace, nodeSelector={"vkubelet.io/peering": release.peering}
    )
    (behind,) = await find_remote_pods(release.remote, pod)
    assert process.component is not None
    return str(behind["metadata"]["uid"])


async def test_a_second_release_for_the_same_peering(release: Installation) -> None:
    done = await release.install(check=False, release="again")
    assert done.returncode != 0
    assert "exists and cannot be imported into the current release" in done.stderr
    assert 'must equal "again": current value is "sky"' in done.stderr


async def test_a_namespace_that_does_not_exist(
    release: Installation, home: Cluster, remote: Cluster
) -> None:
    values = merge(
        release.values,
        {"config": {"remote": {"cluster": "nowhere"}, "namespaces": {"names": ["not-there"]}}},
    )
    other = Installation(home=home, remote=remote, peering="nowhere", values=values)
    done = await other.install(check=False)
    assert done.returncode != 0
    assert 'namespaces "not-there" not found' in done.stderr
    await run_helm("uninstall", "nowhere", f"-n={NAMESPACE}", "--no-hooks", cluster=home)


@dataclass(frozen=True, slots=True)
class Role:
    """A Role or ClusterRole of the release."""

    cluster: Cluster
    kind: str
    name: str
    namespace: str = ""

    @property
    def _where(self) -> list[str]:
        return [f"--namespace={self.namespace}"] if self.namespace else []

    async def read(self) -> list[dict[str, Any]]:
        found = await get(self.cluster, self.kind, self.name, *self._where)
        return list(found["rules"])

    async def write(self, rules: Sequence[dict[str, Any]]) -> None:
        patch = [{"op": "replace", "path": "/rules", "value": rules}]
        text = msgspec.json.encode(patch).decode()
        await self.cluster.kubectl(
            "patch", self.kind, self.name, *self._where, "--type=json", f"--patch={text}"
        )


def _without(rules: Sequence[dict[str, Any]], index: int, verb: str) -> list[dict[str, Any]]:
    """Return the rules less a verb of one of them."""
    changed = [dict(rule) for rule in rules]
    changed[index]["verbs"] = [item for item in rules[index]["verbs"] if item != verb]
    return [rule for rule in changed if rule["verbs"]]


async def _take_verbs(
    role: Role, find_missing: Callable[[], Awaitable[set[Grant]]], *, but_for: str | None = None
) -> set[Grant]:
    """Take each verb out of its rule in turn, and return all that was missing by that."""
    rules = await role.read()
    named: set[Grant] = set()
    try:
        for index, rule in enumerate(rules):
            if rule["apiGroups"] == [but_for]:  # wanted, not needed
                continue
            for verb in rule["verbs"]:
                await role.write(_without(rules, index, verb))
                missing = await find_missing()
                assert {grant.verb for grant in missing} == {verb}, rule
                resources = {grant.resource.partition("/")[2] for grant in missing}
                assert resources == set(rule["resources"])
                named |= missing
    finally:
        await role.write(rules)
    return named


async def test_each_right_that_is_missing_is_named(
    release: Installation, home: Cluster, reflected: str
) -> None:
    """Each verb is taken out of its rule in turn, and the process's own check asked."""
    roles = (
        Role(home, "clusterrole", release.name),
        Role(home, "role", f"{release.name}-lock", NAMESPACE),
        Role(home, "role", release.name, "kube-node-lease"),
        Role(home, "role", f"{release.name}-reflected", reflected),
    )
    named: set[Grant] = set()
    for role in roles:
        named |= await _take_verbs(role, lambda: _find_missing(release))
    assert await _find_missing(release) == set()
    assert len(named) > 30


async def test_each_right_that_is_missing_over_there_is_named(
    release: Installation, remote: Cluster
) -> None:
    role = Role(remote, "clusterrole", release.remote_name)
    named = await _take_verbs(
        role, lambda: _find_missing_over_there(release), but_for="metrics.k8s.io"
    )
    assert await _find_missing_over_there(release) == set()
    assert named == as_grants(remote_rights())


async def _find_missing_over_there(release: Installation) -> set[Grant]:
    await asyncio.sleep(0.1)  # the authorizer follows by a watch
    async with release.remote.client(release.remote_kubeconfig) as client:
        return as_grants(await find_missing_rights(client, remote_rights()))


async def _find_missing(release: Installation) -> set[Grant]:
    config = release.values["config"]
    namespaces = NamespaceConfig.model_validate(config["namespaces"])
    serving = ServingConfig.model_validate(config["kubelet"])
    lock = NamespacedName(NAMESPACE, f"vkubelet-{release.peering}")
    rights = list_home_rights(namespaces, serving, lock)
    rights += removal_rights_at_home(namespaces.names)
    for name in namespaces.names:
        rights += dependent_rights(name, tokens=False)
    await asyncio.sleep(0.1)  # the authorizer follows by a watch
    async with release.home.client(release.account_kubeconfig()) as client:
        return as_grants(await find_missing_rights(client, rights))


async def test_a_process_without_a_right_says_so_and_ends(
    release: Installation, home: Cluster
) -> None:
    role = Role(home, "role", release.name, "kube-node-lease")
    rules = await role.read()
    await role.write([])
    try:
        process = await release.build_process()
        code, output = await run_command("run", *process.arguments)
    finally:
        await role.write(rules)
    assert code == 1
    assert (
        "the home credentials lack these rights: create leases.coordination.k8s.io in namespace"
        " kube-node-lease, patch leases.coordination.k8s.io in namespace kube-node-lease"
    ) in output


async def test_a_process_without_a_right_over_there_says_so_and_ends(
    release: Installation, remote: Cluster
) -> None:
    role = Role(remote, "clusterrole", release.remote_name)
    rules = await role.read()
    index = next(i for i, rule in enumerate(rules) if "pods/resize" in rule["resources"])
    await role.write(_without(rules, index, "patch"))
    try:
        process = await release.build_process()
        code, output = await run_command("run", *process.arguments)
    finally:
        await role.write(rules)
    assert code == 1
    assert (
        "the remote credentials lack these rights: patch pods/ephemeralcontainers,"
        " patch pods/resize"
    ) in output


async def test_upgrade_rollback_and_uninstall_leave_pods_running(
    release: Installation, home: Cluster, remote: Cluster, reflected: str
) -> None:
    async with release.running() as process:
        uid = await _run(release, process, "stays", reflected)
    await release.upgrade({"config": {"capacity": {"percent": 50}}})
    async with release.running():
        assert await _read_behind(home, remote, "stays", reflected) == uid

        async def offers_half() -> bool:
            node = await get(home, "node", "sky")
            return bool(node["status"]["allocatable"]["cpu"] == "6")

        await wait_until(offers_half, "the node offers half")
    await run_helm("rollback", release.peering, "1", f"-n={NAMESPACE}", cluster=home)
    async with release.running():

        async def whole() -> bool:
            node = await get(home, "node", "sky")
            return bool(node["status"]["allocatable"]["cpu"] == "12")

        await wait_until(whole, "all is offered again")
        assert await _read_behind(home, remote, "stays", reflected) == uid
    await run_helm("uninstall", release.peering, f"-n={NAMESPACE}", "--no-hooks", cluster=home)
    assert await get(home, "deployment", release.name, f"-n={NAMESPACE}") == {}
    assert await get(home, "node", "sky") != {}
    assert await _read_behind(home, remote, "stays", reflected) == uid
    await release.install()
    await release.make_kubeconfigs()
    async with release.running():
        assert await _read_behind(home, remote, "stays", reflected) == uid
        log = await home.kubectl("logs", "stays", f"-n={reflected}")
        assert log.stdout == "started\n"
        await home.kubectl("delete", "pod", "stays", f"-n={reflected}", "--wait=false")
        await wait_gone(home, "stays", reflected)


async def _read_behind(home: Cluster, remote: Cluster, name: str, namespace: str) -> str:
    (behind,) = await find_remote_pods(remote, await get_pod(home, name, namespace))
    return str(behind["metadata"]["uid"])


async def test_credentials_are_rotated_while_a_log_is_followed(
    release: Installation, home: Cluster, remote: Cluster, reflected: str
) -> None:
    async with release.running() as process:
        command = ["sh", "-c", "n=0; while true; do n=$((n+1)); echo tick $n; sleep 0.2; done"]
        await run_pod(
            home,
            "ticks",
            reflected,
            nodeSelector={"vkubelet.io/peering": "sky"},
            command=command,
        )
        async with home.kubectl_process("logs", "-f", "ticks", f"-n={reflected}") as follow:
            assert follow.stdout is not None
            assert (await follow.stdout.readline()).startswith(b"tick")
            await release.end_token()
            await release.rotate()  # as the documentation says
            await _run(release, process, "after", reflected)
            async with asyncio.timeout(10):
                for _ in range(20):
                    assert (await follow.stdout.readline()).startswith(b"tick")
        assert await process.read_ready() == 200
        await home.kubectl("delete", "pod", "ticks", "after", f"-n={reflected}", "--wait=false")
        for name in ("ticks", "after"):
            await wait_gone(home, name, reflected)


async def test_a_kubeconfig_that_turns_to_garbage_and_back(
    release: Installation, reflected: str
) -> None:
    good = release.remote_kubeconfig.read_bytes()
    async with release.running() as process:
        release.remote_kubeconfig.write_text("garbage: [")

        async def warned() -> bool:
            assert process.component is not None
            return "the credentials read before stay in use" in process.component.read_log(lines=99)

        await wait_until(warned, "it warns of the garbage")
        assert await process.read_ready() == 200
        await _run(release, process, "meanwhile", reflected)
        release.remote_kubeconfig.write_bytes(good)
        await release.home.kubectl("delete", "pod", "meanwhile", f"-n={reflected}", "--wait=false")
        await wait_gone(release.home, "meanwhile", reflected)
    for content in (b"", b"garbage: [", None):
        release.remote_kubeconfig.unlink()
        if content is not None:
            release.remote_kubeconfig.write_bytes(content)
        process = await release.build_process()
        code, output = await run_command("run", *process.arguments)
        assert code == 1
        assert str(release.remote_kubeconfig) in output.splitlines()[-1]
    release.remote_kubeconfig.write_bytes(good)


async def test_a_key_that_this_version_does_not_know(release: Installation) -> None:
    """An image that is older than the chart."""
    process = await release.build_process()
    file = await release.read_configuration()
    file.write_text(file.read_text() + "novelties:\n  some: value\n")
    code, output = await run_command("run", *process.arguments)
    assert code == 2
    assert output.splitlines()[-1].endswith("unknown key novelties")


async def test_teardown_at_uninstall(
    release: Installation, home: Cluster, remote: Cluster, reflected: str
) -> None:
    """As the hook does it: its objects, its arguments, its service account."""
    await _upgrade_remote(release)
    async with release.running() as process:
        await _run(release, process, "goes", reflected)
    hooks = await read_hooks(merge(release.values, {"teardownOnUninstall": True}), "post-delete")
    (job,) = (found for found in hooks if found["kind"] == "Job")
    configuration = await release.read_configuration()
    await run_helm("uninstall", release.peering, f"-n={NAMESPACE}", "--no-hooks", cluster=home)
    await apply(home, [found for found in hooks if found is not job])
    kubeconfig = release.account_kubeconfig("-teardown")
    await make_kubeconfig(home, f"{release.name}-teardown", kubeconfig)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    arguments = [
        f"--config={configuration}" if "--config" in argument else argument
        for argument in container["args"]
    ]
    code, output = await run_command(
        *arguments,
        f"--kubeconfig={kubeconfig}",
        f"--remote-kubeconfig={release.remote_kubeconfig}",
        f"--system-namespace={NAMESPACE}",
    )
    assert code == 0, output
    assert output.splitlines()[-1] == "done"
    assert await get(home, "node", "sky") == {}
    assert await get_pod(home, "goes", reflected) == {}
    assert await get(home, "lease", "vkubelet-sky", f"-n={NAMESPACE}") == {}

    async def emptied() -> bool:
        found = await remote.kubectl(
            "get", "namespaces", "--selector=vkubelet.io/peering=sky", "-o", "name"
        )
        return found.stdout == ""

    await wait_until(emptied, "the remote namespaces are gone")


async def _upgrade_remote(release: Installation) -> None:
    await run_helm(
        "upgrade",
        f"remote-{release.peering}",
        str(REMOTE),
        f"-n={NAMESPACE}",
        f"--set=peering={release.peering},teardown=true",
        cluster=release.remote,
    )
