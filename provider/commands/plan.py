"""`vkubelet plan`: show what these flags would make of a remote cluster; changes nothing."""

from collections.abc import Callable
from typing import TypeVar

from provider.capacity import CapacityLedger
from provider.commands.launch import run_to_end
from provider.commands.output import open_console, print_encoded
from provider.commands.plan_table import print_plan
from provider.config import PlanConfig
from provider.errors import MissingRightsError, StartError
from provider.mapping.errors import MappingError
from provider.mapping.groups import NodeMapping
from provider.mapping.physical import decode_physical_node
from provider.node_config import ForeignUse
from provider.node_plan import build_mapping, build_node_plan
from provider.node_report import NodeReport, build_node_report, encode_node_report
from provider.nodes.remote_nodes import NodePlan
from provider.peering import Peering
from provider.pods.usage import NON_TERMINAL
from provider.requests import CountedPod, decode_counted_pod, pod_requests
from provider.rights import Right, find_missing_rights
from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import GoneError, KubeError, StatusError
from vkubelet.kube.objects import NODES, PODS, Resource

T = TypeVar("T")

ADVICE = "--foreign-use ignore does without the one on pods"


def main(config: PlanConfig, *, output: str) -> int:
    """
    Print the plan.

    Args:
        config: Which cluster, and how its nodes are mapped.
        output: "table", "json" or "yaml".

    Raises:
        ConfigError: If the node mapping can't be made.
        StartError: If the remote cluster can't be looked at.
    """
    mapping = build_mapping(config.nodes, config.remote.cluster)
    report = run_to_end(lambda: make_report(config, mapping))
    if output == "table":
        print_plan(report, open_console())
    else:
        print_encoded(encode_node_report(report), output)
    return 0


async def make_report(config: PlanConfig, mapping: NodeMapping) -> NodeReport:
    """
    Look at the remote cluster and report.

    Raises:
        StartError: If it can't be reached, or rights are missing.
    """
    remote = config.remote
    peering = Peering(home_uid="", home_cluster="", remote_cluster=remote.cluster)
    plan = build_node_plan(config.nodes, config.capacity, mapping, peering)
    try:
        access = await load_kubeconfig(
            remote.kubeconfig,
            remote.context,
            allow_exec=remote.allow_exec,
            allow_outside_files=remote.allow_files,
        )
        async with KubeClient(access, name="remote") as client:
            return await _look(client, plan, config.capacity.foreign_use)
    except StatusError as error:
        raise StartError(f"the remote API server refused: {error}") from error
    except (KubeError, MappingError) as error:
        raise StartError(str(error)) from error


async def _look(client: KubeClient, plan: NodePlan, foreign_use: ForeignUse) -> NodeReport:
    counts = foreign_use is ForeignUse.WATCH
    rights = [Right("list", NODES), *([Right("list", PODS)] if counts else [])]
    missing = await find_missing_rights(client, rights)
    if missing:
        advice = ADVICE if any(right.resource is PODS for right in missing) else ""
        raise MissingRightsError("remote", [str(item) for item in missing], advice)
    nodes = await _list_decoded(client, NODES, decode_physical_node)
    ledger = CapacityLedger()
    if counts:
        for pod in await _list_decoded(client, PODS, _decode_pod, field_selector=NON_TERMINAL):
            ledger.set_remote_pod(
                pod.metadata.key, node=pod.spec.node_name, requests=pod_requests(pod)
            )
    return build_node_report(nodes, plan, used=ledger.used)


def _decode_pod(raw: bytes) -> CountedPod:
    return decode_counted_pod(raw)


async def _list_decoded(
    client: KubeClient, resource: Resource, decode: Callable[[bytes], T], field_selector: str = ""
) -> list[T]:
    """List a whole collection by pages; when a page has expired, all at once."""
    found: list[T] = []
    limit, token = 500, ""
    while True:
        try:
            page = await client.list_page(
                resource, field_selector=field_selector, limit=limit, continue_token=token
            )
        except GoneError:
            if not token:
                raise
            found, limit, token = [], 0, ""
            continue
        found += [decode(bytes(item)) for item in page.items]
        token = page.continue_token
        if not token:
            return found
