"""
What the remote side says of a pod, with the names that home knows.

The kubelet over there knows copies of ConfigMaps and Secrets by the copies' names.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from provider.labels import DEPENDENTS, HOME_CLUSTER, HOME_NAMESPACE, PEERING
from provider.translation.dependents import DependentNames, read_dependents
from vkubelet.kube.objects import KubeObject


@dataclass(frozen=True, slots=True)
class CopiedNames:
    """
    The names of what was copied for a pod.

    Attributes:
        names: Gives the copies their names.
        remote_namespace: Where they are.
        dependents: What was copied, as the remote pod's annotation keeps it.
    """

    names: DependentNames
    remote_namespace: str
    dependents: str

    def restore(self, text: str) -> str:
        """Put originals' names in place of their copies' in a message."""
        here, there = self.names.namespace, self.remote_namespace
        for kind, original in sorted(read_dependents(self.dependents)):
            copy = self.names.copy(kind, original)
            if copy in text:
                text = text.replace(f"{there}/{copy}", f"{here}/{original}")
                text = text.replace(f'"{there}"/"{copy}"', f'"{here}"/"{original}"')
                text = text.replace(copy, original)
        return text


def read_copied_names(
    namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> CopiedNames | None:
    """Read off the metadata of a remote pod what was copied for it; None if nothing was."""
    dependents = annotations.get(DEPENDENTS)
    if not dependents:
        return None
    home_namespace = annotations.get(HOME_NAMESPACE, "")
    names = DependentNames(labels.get(HOME_CLUSTER, ""), labels.get(PEERING, ""), home_namespace)
    return CopiedNames(names, namespace, dependents)


def restore_in_status(status: KubeObject, names: CopiedNames) -> KubeObject:
    """Restore names in what a container's status says of its wait; it isn't changed."""
    state: KubeObject = status.get("state") or {}
    waiting: KubeObject = state.get("waiting") or {}
    if not waiting.get("message"):
        return status
    waiting = {**waiting, "message": names.restore(waiting["message"])}
    return {**status, "state": {**state, "waiting": waiting}}
