"""A peering, home cluster times remote cluster, and how its objects are told from all others."""

from collections.abc import Mapping
from dataclasses import dataclass

from provider.labels import HOME_CLUSTER, HOME_NAMESPACE, HOME_POD_UID, PEERING
from vkubelet.interface import PodRef
from vkubelet.kube.objects import ObjectMeta


@dataclass(frozen=True, slots=True)
class Peering:
    """
    Identity of a peering.

    Attributes:
        home_uid: UID of the home cluster's kube-system namespace.
        home_cluster: Name of the home cluster.
        remote_cluster: Name of the remote cluster; names the peering within its home.
    """

    home_uid: str
    home_cluster: str
    remote_cluster: str

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every object of ours, on either side."""
        return {HOME_CLUSTER: self.home_uid, PEERING: self.remote_cluster}

    @property
    def label_selector(self) -> str:
        """Selector for objects of ours."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))

    def owns(self, metadata: ObjectMeta) -> bool:
        """Tell whether an object is ours: both labels match."""
        return self.owns_labels(metadata.labels)

    def owns_labels(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with these labels is ours."""
        return all(labels.get(key) == value for key, value in self.labels.items())


def home_uid_of(metadata: ObjectMeta) -> str:
    """Return the UID of the home pod of a remote pod; "" if it tells none."""
    return metadata.labels.get(HOME_POD_UID, "")


def home_pod_of(metadata: ObjectMeta) -> PodRef | None:
    """Name the home pod of a remote pod, as its labels and annotations tell."""
    namespace, uid = metadata.annotations.get(HOME_NAMESPACE, ""), home_uid_of(metadata)
    return PodRef(namespace, metadata.name, uid) if namespace and uid else None
