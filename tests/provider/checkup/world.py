"""Two fake clusters to check, and a configuration."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from provider.checkup.finding import Finding
from provider.checkup.surroundings import Surroundings
from provider.command_config import CheckConfig
from provider.node_plan import build_mapping
from tests.fakes.api_server import ApiCall, FakeApiServer
from tests.fakes.physical_nodes import raw_node
from tests.provider.values import PEERING
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import KubeObject, NamespacedName
from vkubelet.times import format_time, utc_now

SYSTEM = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "kube-system", "uid": PEERING.home_uid},
}


def serve_identity(fake: FakeApiServer, version: str = "v1.37.2", user: str = "admin") -> None:
    """Have a fake tell its version, its time and who asks."""
    fake.handle("GET /version", lambda _: {"gitVersion": version})

    def review(call: ApiCall) -> KubeObject:
        metadata = {"creationTimestamp": format_time(utc_now())}
        return {**call.body, "metadata": metadata, "status": {"userInfo": {"username": user}}}

    fake.handle("create selfsubjectreviews", review)


def allow_but(fake: FakeApiServer, *denied: str) -> None:
    """Have a fake deny rights: "verb resource[/subresource]", of any group or `.group` after it."""

    def review(call: ApiCall) -> KubeObject:
        attributes = call.body["spec"]["resourceAttributes"]
        resource = attributes["resource"]
        if attributes.get("subresource"):
            resource += f"/{attributes['subresource']}"
        asked = f"{attributes['verb']} {resource}"
        allowed = not {asked, f"{asked}.{attributes.get('group', '')}"} & set(denied)
        return {**call.body, "status": {"allowed": allowed}}

    fake.handle("create selfsubjectaccessreviews", review)
    fake.handle("create subjectaccessreviews", review)


@dataclass
class World:
    """Both sides."""

    home: FakeApiServer
    remote: FakeApiServer
    home_client: KubeClient
    remote_client: KubeClient

    def config(self, **sections: Any) -> CheckConfig:
        remote = {"cluster": "cloud", "kubeconfig": self.remote.write_kubeconfig()}
        return CheckConfig.model_validate(
            {
                "home": {"kubeconfig": self.home.write_kubeconfig(), "cluster": "home"},
                "remote": {**remote, **sections.pop("remote", {})},
                "namespaces": {"names": ["demo"], **sections.pop("namespaces", {})},
                **sections,
            }
        )

    def around(
        self, *, service_account: NamespacedName | None = None, **sections: Any
    ) -> Surroundings:
        config = self.config(**sections)
        mapping = build_mapping(config.nodes, "cloud")
        return Surroundings(config, mapping, self.home_client, self.remote_client, service_account)


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    async with (
        FakeApiServer() as home,
        FakeApiServer() as remote,
        home.client("home") as home_client,
        remote.client("remote") as remote_client,
    ):
        home.put(SYSTEM)
        home.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}})
        remote.put(raw_node("n1", {"zone": "a"}))
        remote.put(raw_node("n2", {"zone": "b"}))
        serve_identity(home)
        serve_identity(remote, user="vkubelet")
        yield World(home, remote, home_client, remote_client)


def show(findings: list[Finding]) -> list[str]:
    return [f"{finding.level}: {finding.message}" for finding in findings]
