"""Where the lock of a peering is: one process at a time serves it."""

from vkubelet.kube.access import in_cluster_namespace
from vkubelet.kube.objects import NamespacedName

DEFAULT_SYSTEM_NAMESPACE = "kube-system"


def find_lock_key(system_namespace: str | None, remote_cluster: str) -> NamespacedName:
    """
    Name the lock Lease.

    Args:
        system_namespace: Where the user wants it; None: the process's own namespace, if it runs in
            a cluster, else kube-system.
        remote_cluster: Name of the peering.
    """
    namespace = system_namespace or in_cluster_namespace() or DEFAULT_SYSTEM_NAMESPACE
    return NamespacedName(namespace, f"vkubelet-{remote_cluster}")
