"""What there is of a peering, on either side."""

from dataclasses import dataclass

from provider.bound_pods import list_pods_on
from provider.peering import Peering
from provider.pods.namespaces import home_namespace_of
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    KubeObject,
    NamespacedName,
    Resource,
)


@dataclass(frozen=True, slots=True)
class Found:
    """An object that is there; the UID is the precondition of whatever is done to it."""

    resource: Resource
    key: NamespacedName
    uid: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class Inventory:
    """
    What is there.

    Attributes:
        nodes: Our virtual nodes at home.
        home_pods: The pods on them, as they are.
        remote_pods: Our pods in the remote cluster, as they are.
        config_maps: Our ConfigMaps there: anchors and copies. Secrets go with the anchor that owns
            them.
        namespaces: The remote namespaces that we made.
    """

    nodes: tuple[Found, ...]
    home_pods: tuple[KubeObject, ...]
    remote_pods: tuple[KubeObject, ...] = ()
    config_maps: tuple[Found, ...] = ()
    namespaces: tuple[Found, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left."""
        return not (
            self.nodes or self.home_pods or self.remote_pods or self.config_maps or self.namespaces
        )


async def take_inventory(
    home: KubeClient, remote: KubeClient | None, peering: Peering
) -> Inventory:
    """
    Look at both sides; at home alone if there is no remote one.

    Raises:
        KubeError: If a side can't be looked at.
    """
    nodes = await _find(home, NODES, peering)
    home_pods = await list_pods_on(home, [node.key.name for node in nodes])
    if remote is None:
        return Inventory(nodes, tuple(home_pods))
    return Inventory(
        nodes,
        tuple(home_pods),
        tuple(await remote.list(PODS, label_selector=peering.label_selector)),
        await _find(remote, CONFIG_MAPS, peering),
        await _find_namespaces(remote, peering),
    )


async def _find(client: KubeClient, resource: Resource, peering: Peering) -> tuple[Found, ...]:
    objects = await client.list(resource, label_selector=peering.label_selector)
    return tuple(name_object(resource, obj) for obj in objects)


async def _find_namespaces(remote: KubeClient, peering: Peering) -> tuple[Found, ...]:
    labelled = await remote.list(NAMESPACES, label_selector=peering.label_selector)
    made = (obj for obj in labelled if home_namespace_of(obj, peering) is not None)
    return tuple(name_object(NAMESPACES, obj) for obj in made)


def name_object(resource: Resource, obj: KubeObject) -> Found:
    """Name an object."""
    metadata = obj["metadata"]
    key = NamespacedName(metadata.get("namespace", ""), metadata["name"])
    return Found(resource, key, metadata["uid"])
