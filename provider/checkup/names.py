"""The checks' names, in the order in which they are run; the command line needs no more."""

HOME_API = "home-api"
REMOTE_API = "remote-api"
KUBELET_PORT = "kubelet-port"
POD = "pod"

NAMES = (
    HOME_API,
    REMOTE_API,
    "versions",
    "clocks",
    "home-rights",
    "remote-rights",
    "namespaces",
    "pod-security",
    "virtual-nodes",
    "certificates",
    KUBELET_PORT,
    "daemonsets",
    "pod-cidr",
    "peering",
    "leftovers",
    POD,
)
