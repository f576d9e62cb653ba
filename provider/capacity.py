"""
The ledger: what pods take of physical nodes, and what of it home's own scheduler already counts.

It is kept per physical node by name, whether or not that node is known: a pod may come before its
node. An event costs the same whatever the size of the cluster.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from provider.requests import NOTHING, Resources
from vkubelet.kube.objects import NamespacedName

_NONE = Decimal(0)


@dataclass(frozen=True, slots=True)
class _RemotePod:
    node: str
    requests: Resources
    home_uid: str


@dataclass(frozen=True, slots=True)
class _HomePod:
    virtual_node: str
    requests: Resources


class CapacityLedger:
    """
    Requests of remote pods by physical node, and of placed home pods by virtual node.

    The handlers are called with the name of a physical, or a virtual, node whose sums changed.
    """

    def __init__(
        self,
        on_node_change: Callable[[str], None] = lambda _: None,
        on_virtual_node_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._on_node_change = on_node_change
        self._on_virtual_node_change = on_virtual_node_change
        self._remote: dict[NamespacedName, _RemotePod] = {}
        self._home: dict[str, _HomePod] = {}
        self._placed: dict[str, int] = {}  # home UID: its remote pods that have a node
        self._used: dict[str, dict[str, Decimal]] = {}
        self._returned: dict[str, dict[str, Decimal]] = {}

    def used(self, node: str) -> Resources:
        """Sum of the requests of the non-terminal pods on a physical node."""
        return self._used.get(node, NOTHING)

    def returned(self, virtual_node: str) -> Resources:
        """
        Sum of the home requests of the home pods on a virtual node whose remote pod has a node.

        The home scheduler subtracts them itself; given back, the two views meet.
        """
        return self._returned.get(virtual_node, NOTHING)

    def set_remote_pod(
        self, key: NamespacedName, *, node: str, requests: Resources, home_uid: str = ""
    ) -> None:
        """Count a remote pod; `node` is "" while it has none, `home_uid` is set on our own."""
        pod = _RemotePod(node, requests, home_uid)
        old = self._remote.get(key)
        if old == pod:
            return
        if old is not None:
            self._count_remote(old, -1)
        self._remote[key] = pod
        self._count_remote(pod, 1)

    def remove_remote_pod(self, key: NamespacedName) -> None:
        """Forget a remote pod; one that isn't known is no matter."""
        old = self._remote.pop(key, None)
        if old is not None:
            self._count_remote(old, -1)

    def set_home_pod(self, uid: str, *, virtual_node: str, requests: Resources) -> None:
        """Count a home pod on a virtual node of ours; a terminal one requests nothing."""
        pod = _HomePod(virtual_node, requests)
        old = self._home.get(uid)
        if old == pod:
            return
        self.remove_home_pod(uid)
        self._home[uid] = pod
        if uid in self._placed:
            self._add_returned(pod, 1)

    def remove_home_pod(self, uid: str) -> None:
        """Forget a home pod; one that isn't known is no matter."""
        old = self._home.pop(uid, None)
        if old is not None and uid in self._placed:
            self._add_returned(old, -1)

    def _count_remote(self, pod: _RemotePod, sign: int) -> None:
        if not pod.node:
            return
        _accumulate(self._used, pod.node, pod.requests, sign)
        self._on_node_change(pod.node)
        if pod.home_uid:
            self._count_placed(pod.home_uid, sign)

    def _count_placed(self, home_uid: str, sign: int) -> None:
        before = self._placed.get(home_uid, 0)
        after = before + sign
        if after:
            self._placed[home_uid] = after
        else:
            self._placed.pop(home_uid, None)
        home = self._home.get(home_uid)
        if home is not None and (before == 0) != (after == 0):
            self._add_returned(home, sign)

    def _add_returned(self, pod: _HomePod, sign: int) -> None:
        _accumulate(self._returned, pod.virtual_node, pod.requests, sign)
        self._on_virtual_node_change(pod.virtual_node)


def _accumulate(
    sums: dict[str, dict[str, Decimal]], name: str, amounts: Mapping[str, Decimal], sign: int
) -> None:
    """Add amounts to the sums of a name, or take them off; what comes to nothing is dropped."""
    total = sums.setdefault(name, {})
    for resource, amount in amounts.items():
        known = total.get(resource, _NONE)
        value = known + amount if sign > 0 else known - amount
        if value:
            total[resource] = value
        else:
            total.pop(resource, None)
    if not total:
        del sums[name]
