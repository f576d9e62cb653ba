"""Whether home has room for more Nodes: each takes a pod CIDR, where Nodes get one."""

import ipaddress
import re
from collections.abc import Iterable
from typing import TypeAlias

import yaml

from provider.checkup.finding import Finding, failure, ok, skipped, warning
from provider.checkup.surroundings import Surroundings
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import StatusError
from vkubelet.kube.objects import CONFIG_MAPS, PODS, KubeObject, NamespacedName

SCARCE = 10
"""Fewer free CIDRs than that are worth a word."""

_KUBEADM = NamespacedName("kube-system", "kubeadm-config")
_CONTROLLERS = "component=kube-controller-manager"
_FLAG = re.compile(r"--cluster-cidr=(\S+)")

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


async def check_pod_cidr(around: Surroundings) -> list[Finding]:
    """Check the headroom for the virtual nodes that aren't there yet."""
    nodes = await around.home_nodes()
    planned = await around.planned()
    there = {node["metadata"]["name"] for node in nodes}
    coming = len(planned.nodes.keys() - there)
    taken = _read_cidrs(nodes)
    if not taken:
        return [ok("home's Nodes get no pod CIDRs")]
    clusters = await _find_cluster_cidrs(around.home)
    if not clusters:
        size = ", ".join(sorted({f"/{network.prefixlen}" for network in taken}))
        return [
            skipped(
                f"each Node takes a pod CIDR ({size}), and it isn't known how many there are",
                f"see that --cluster-cidr has {coming} left",
            )
        ]
    return judge_headroom(clusters, taken, coming)


def _read_cidrs(nodes: Iterable[KubeObject]) -> list[Network]:
    return [
        ipaddress.ip_network(text, strict=False)
        for node in nodes
        for text in (node.get("spec") or {}).get("podCIDRs") or ()
    ]


async def _find_cluster_cidrs(home: KubeClient) -> list[Network]:
    """Find out what kube-controller-manager was told, where it can be seen."""
    try:
        config = await home.get(CONFIG_MAPS, _KUBEADM)
        text = _read_kubeadm(config)
    except StatusError:
        text = ""
    if not text:
        try:
            pods = await home.list(PODS, namespace="kube-system", label_selector=_CONTROLLERS)
        except StatusError:
            return []
        text = next(filter(None, map(_read_command, pods)), "")
    return parse_networks(text)


def _read_kubeadm(config: KubeObject) -> str:
    try:
        cluster = yaml.safe_load((config.get("data") or {}).get("ClusterConfiguration") or "")
    except yaml.YAMLError:
        return ""
    networking = cluster.get("networking") if isinstance(cluster, dict) else None
    return str((networking or {}).get("podSubnet") or "")


def _read_command(pod: KubeObject) -> str:
    for container in pod["spec"].get("containers") or ():
        for word in (*(container.get("command") or ()), *(container.get("args") or ())):
            match = _FLAG.fullmatch(word)
            if match is not None:
                return match[1]
    return ""


def parse_networks(text: str) -> list[Network]:
    """Read networks separated by commas; what is none is left out."""
    networks: list[Network] = []
    for part in filter(None, text.split(",")):
        try:
            networks.append(ipaddress.ip_network(part.strip(), strict=False))
        except ValueError:
            continue
    return networks


def judge_headroom(
    clusters: Iterable[Network], taken: Iterable[Network], coming: int
) -> list[Finding]:
    """
    Judge each of the cluster's networks.

    Args:
        clusters: What CIDRs of Nodes are cut from.
        taken: The CIDRs of the Nodes that there are.
        coming: How many Nodes will come.
    """
    findings = []
    of_nodes = list(taken)
    for cluster in clusters:
        inside = [
            network
            for network in of_nodes
            if network.version == cluster.version and _contains(cluster, network)
        ]
        if not inside:
            continue
        prefix = max(network.prefixlen for network in inside)
        total = 1 << max(prefix - cluster.prefixlen, 0)
        free = total - len(inside)
        room = f"{cluster} has {free} of {total} pod CIDRs (/{prefix}) left for Nodes"
        if free < coming:
            findings.append(
                failure(
                    f"{room}, and {coming} virtual nodes will come",
                    "make fewer of them (--node-mapping, --max-nodes-per-virtual-node): the last"
                    " ones would keep real nodes from getting any",
                )
            )
        elif free - coming < SCARCE:
            findings.append(warning(f"{room}; {coming} virtual nodes will come"))
        else:
            findings.append(ok(f"{room}; {coming} virtual nodes will come"))
    return findings or [skipped("Nodes have pod CIDRs from elsewhere")]


def _contains(cluster: Network, network: Network) -> bool:
    first, last = int(cluster.network_address), int(cluster.broadcast_address)
    return first <= int(network.network_address) <= last
