"""
Label, annotation and taint keys, each written once.

Ours are under `vkubelet.io/`; the others are keys of Kubernetes or of its conventions that this
code decides on.
"""

import hashlib

from vkubelet.kube.names import MAX_LABEL_VALUE, is_label_value

PREFIX = "vkubelet.io/"
"""Ours; such labels and annotations of home objects never travel: nobody can forge them."""

VIRTUAL_KUBELET_PREFIX = "virtual-kubelet.io/"

# On every object of ours on either side: ours means that both match.
HOME_CLUSTER = "vkubelet.io/home-cluster"
"""Label: UID of the home cluster's kube-system namespace."""
PEERING = "vkubelet.io/peering"
"""Label: name of the remote cluster, as given by --remote-cluster."""

# On remote pods.
VIRTUAL_NODE = "vkubelet.io/virtual-node"
"""Label (made valid) and annotation (in full): the virtual node that the home pod is bound to."""
HOME_POD_UID = "vkubelet.io/home-pod-uid"
"""Label: UID of the home pod."""
HOME_NAMESPACE = "vkubelet.io/home-namespace"
"""Annotation: namespace of the home pod; the downward API reads it."""
HOME_NAME = "vkubelet.io/home-name"
"""Annotation: name of the home pod."""
HOME_GENERATION = "vkubelet.io/home-generation"
"""Annotation: metadata.generation of the home pod that the remote pod has been made to be as."""

APPLIED = "vkubelet.io/applied"
"""Annotation: what was asked for of the remote pod last, JSON."""
RESTARTS = "vkubelet.io/restarts"
"""Annotation: restarts of the remote pods that this one replaces, by container, JSON."""
DEPENDENTS = "vkubelet.io/dependents"
"""Annotation: the ConfigMaps and Secrets of home that the pod needs, Kind/name each."""

# On copies of ConfigMaps and Secrets, and on Secrets with tokens; HOME_NAMESPACE and HOME_NAME tell
# whose copy it is, or the pod that has the token.
DEPENDENT = "vkubelet.io/dependent"
"""Label: `copy`, or `token` (then HOME_POD_UID is there, too)."""
TOKEN_ROTATION = "vkubelet.io/rotate-after"  # noqa: S105 - a key, no secret
"""Annotation: when a token is to be replaced."""

# On virtual nodes.
NODE_MAPPING = "vkubelet.io/node-mapping"
"""Label: the mapping that made the virtual node."""
GROUP = "vkubelet.io/group"
"""Annotation: key of the group behind the virtual node."""
SLICE_MEMBERS = "vkubelet.io/slice-members"
"""Annotation: names of the physical nodes of one slice of a split group; kept across restarts."""
LARGEST_FREE = "vkubelet.io/largest-free-node"
"""Annotation: what the member with the most room has free, JSON."""
MEMBERS = "vkubelet.io/members"
"""Annotation: how many physical nodes are behind, and how many of them take pods now, JSON."""

# On the lock.
VITALS = "vkubelet.io/vitals"
"""Annotation: how the process that holds it fares, JSON."""

TYPE = "type"
TYPE_VIRTUAL_KUBELET = "virtual-kubelet"
PROVIDER_TAINT = "virtual-kubelet.io/provider"

HOSTNAME = "kubernetes.io/hostname"
OS = "kubernetes.io/os"
ARCH = "kubernetes.io/arch"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""On every namespace: its name."""
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
TOPOLOGY_LABELS = (REGION, ZONE)
"""The API server puts those of a node onto the pods that are bound to it."""
EXCLUDE_FROM_LOAD_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
LIFECYCLE_PREFIX = "node.kubernetes.io/"
"""Taints that the control plane puts and removes itself."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

DEFAULT_EXCLUDED_LABELS = ("cloud.google.com/*", "eks.amazonaws.com/*", "kubernetes.azure.com/*")
"""Vendors' own labels: their DaemonSets select nodes by them."""

_HASH_LENGTH = 10


def is_home_only(key: str) -> bool:
    """Whether a label of that key says something about virtual nodes, never about physical ones."""
    return key in (TYPE, HOSTNAME) or key.startswith((PREFIX, VIRTUAL_KUBELET_PREFIX))


def make_hash(text: str) -> str:
    """Return a short hash of the text, valid anywhere in a name."""
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def make_label_value(text: str) -> str:
    """
    Return the text if it's a label value, else a valid one that stands for it.

    Long or odd texts that differ anywhere give different values; the same text always the same.
    """
    if is_label_value(text):
        return text
    readable = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_"
        for letter in text
    )
    head = readable[: MAX_LABEL_VALUE - _HASH_LENGTH - 1].strip("-_.")
    return f"{head}-{make_hash(text)}" if head else make_hash(text)
