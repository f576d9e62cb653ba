"""
ConfigMaps and Secrets that a pod needs, and the names of their copies in the remote cluster.

A copy's name is made of the original's and a hash of the peering, the namespace, the kind and the
name: it's the same whenever it's made, meets nobody else's object and no other peering's copy, and
not the `kube-root-ca.crt` that each namespace has.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from provider.labels import make_hash
from provider.translation.references import (
    CONFIG_MAP,
    SECRET,
    Reference,
    find_references,
)
from provider.translation.tokens import (
    ApiAccess,
    is_root_certificate,
    is_token_volume,
    travelling_volumes,
)
from vkubelet.kube.names import MAX_DNS_SUBDOMAIN
from vkubelet.kube.objects import KubeObject

_IMAGE_PULL_PLACE = "imagePullSecrets"


@dataclass(frozen=True, slots=True)
class DependentNames:
    """
    Gives copies their names.

    Attributes:
        home_cluster_uid: UID of the home cluster's kube-system namespace.
        peering: Name of the remote cluster.
        namespace: The home namespace.
    """

    home_cluster_uid: str
    peering: str
    namespace: str

    def copy(self, kind: str, name: str) -> str:
        """Name the copy of an object."""
        return self._build(name, kind, name)

    def token(self, pod_uid: str, volume: str, index: int) -> str:
        """Name the Secret with a token of a pod."""
        return self._build("token", "token", pod_uid, volume, str(index))

    def _build(self, head: str, *parts: str) -> str:
        identity = "/".join((self.home_cluster_uid, self.peering, self.namespace, *parts))
        digest = make_hash(identity)
        return f"{head[: MAX_DNS_SUBDOMAIN - len(digest) - 1].rstrip('-.')}-{digest}"


@dataclass(frozen=True, slots=True)
class Dependent:
    """
    An object that a pod needs.

    Attributes:
        kind: ConfigMap or Secret.
        name: Its name at home.
        required: Whether the pod can't start without it.
        pulls: Whether it's only used to pull images.
    """

    kind: str
    name: str
    required: bool = True
    pulls: bool = False

    def __str__(self) -> str:
        return f'{self.kind.lower()} "{self.name}"'


def find_dependents(spec: KubeObject, access: ApiAccess) -> tuple[Dependent, ...]:
    """
    Find the ConfigMaps and Secrets that a pod needs, each once.

    Those of ephemeral containers aren't required: without them only that container doesn't start.
    """
    found: dict[tuple[str, str], Dependent] = {}
    for reference, pulls in _find_uses(spec, access):
        dependent = Dependent(reference.kind, reference.name, not reference.optional, pulls)
        key = (dependent.kind, dependent.name)
        known = found.get(key, dependent)
        found[key] = replace(
            known,
            required=known.required or dependent.required,
            pulls=known.pulls and dependent.pulls,
        )
    return tuple(found.values())


def _find_uses(spec: KubeObject, access: ApiAccess) -> Iterator[tuple[Reference, bool]]:
    volumes = [_own_sources(item, access) for item in travelling_volumes(spec, access)]
    for reference in find_references({**spec, "volumes": volumes}):
        if reference.kind in (CONFIG_MAP, SECRET) and reference.name:
            yield reference, False
    ephemeral: list[KubeObject] = spec.get("ephemeralContainers") or []
    for reference in find_references({"containers": ephemeral}):
        if reference.name:
            yield replace(reference, optional=True), False
    for item in spec.get("imagePullSecrets") or []:
        if item.get("name"):
            yield Reference(SECRET, item["name"], _IMAGE_PULL_PLACE, optional=True), True


def _own_sources(volume: KubeObject, access: ApiAccess) -> KubeObject:
    """Leave out what the remote cluster has of its own: the certificate beside its own token."""
    if access is not ApiAccess.REMOTE or not is_token_volume(volume):
        return volume
    sources = [item for item in volume["projected"]["sources"] if not is_root_certificate(item)]
    return {**volume, "projected": {**volume["projected"], "sources": sources}}


def write_dependents(dependents: Iterable[Dependent]) -> str:
    """Write down what a pod needs, as its annotation keeps it."""
    return ",".join(f"{item.kind}/{item.name}" for item in dependents)


def read_dependents(text: str) -> frozenset[tuple[str, str]]:
    """Read kinds and names off the annotation; what isn't of these kinds is left out."""
    pairs = (tuple(item.split("/", 1)) for item in text.split(",") if "/" in item)
    return frozenset((kind, name) for kind, name in pairs if kind in (CONFIG_MAP, SECRET) and name)
