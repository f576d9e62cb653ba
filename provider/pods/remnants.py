"""
Removing remote namespaces, each only if it holds nothing of others.

What it holds is found by discovery, as it may be of any kind.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from provider.peering import Peering
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import (
    NAMESPACES,
    KubeObject,
    NamespacedName,
    Resource,
    decode_object,
)

MADE_BY_THE_CLUSTER = {
    ("", "configmaps"): frozenset({"kube-root-ca.crt"}),
    ("", "serviceaccounts"): frozenset({"default"}),
}
"""What each namespace has of itself."""

NOTHING_OF_ITS_OWN = frozenset({("", "events"), ("events.k8s.io", "events")})
DERIVED_GROUPS = frozenset({"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"})
"""Groups that show other objects once more."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of objects that a namespace can hold."""

    resources: tuple[Resource, ...]

    async def find_foreign(
        self, client: KubeClient, namespace: str, peering: Peering
    ) -> str | None:
        """
        Find something in a namespace that isn't ours, None if there is nothing.

        Raises:
            KubeError: If a kind can't be listed: then it isn't known.
        """
        for resource in self.resources:
            known = MADE_BY_THE_CLUSTER.get((resource.group, resource.plural), frozenset())
            for obj in await client.list(resource, namespace=namespace):
                metadata = obj["metadata"]
                if metadata["name"] in known or peering.owns_labels(metadata.get("labels", {})):
                    continue
                return f"{resource.kind} {metadata['name']}"
        return None


async def remove_namespace(
    client: KubeClient, name: str, kinds: Kinds, peering: Peering, *, uid: str
) -> str | None:
    """
    Remove a remote namespace with all that is ours in it, unless it holds something of others.

    Returns:
        What keeps it; None if it's being removed.

    Raises:
        NotFoundError: If it's gone already.
        ConflictError: If it's another one of that name by now.
        KubeError: If what it holds can't be seen.
    """
    foreign = await kinds.find_foreign(client, name, peering)
    if foreign is None:
        await client.delete(NAMESPACES, NamespacedName("", name), uid=uid)
    return foreign


async def discover_kinds(client: KubeClient) -> Kinds:
    """
    Ask the API server for the kinds of objects that namespaces hold.

    Raises:
        KubeError: If it can't be asked.
    """
    return Kinds(tuple([resource async for resource in _discover(client)]))


async def _discover(client: KubeClient) -> AsyncIterator[Resource]:
    groups = decode_object(await client.get_bytes("/apis"))["groups"]
    paths = [("", "v1", "/api/v1")]
    for group in groups:
        name, version = group["name"], group["preferredVersion"]["version"]
        if name not in DERIVED_GROUPS:
            paths.append((name, version, f"/apis/{name}/{version}"))
    for group_name, version, path in paths:
        answer: KubeObject = decode_object(await client.get_bytes(path))
        for item in answer["resources"]:
            if _is_held(item) and (group_name, item["name"]) not in NOTHING_OF_ITS_OWN:
                yield Resource(group_name, version, item["name"], item["kind"])


def _is_held(item: Mapping[str, Any]) -> bool:
    return bool(item["namespaced"]) and "/" not in item["name"] and "list" in item["verbs"]
