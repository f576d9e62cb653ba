"""
`python -m tests.cluster.process_nodes`: physical nodes of a test cluster, until SIGTERM.

It runs on asyncio's own loop: uvloop's write pipes also read, and so swallow what a terminal puts
out.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from certs.rotation import CsrCertificates
from tests.cluster.process_nodes.nodes import NodesFileError, read_nodes
from tests.cluster.process_nodes.provider import open_provider
from vkubelet.config import ALL_NAMESPACES, DaemonSetPolicy, KubeletPolicy
from vkubelet.errors import ShutdownRequested
from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import AccessError
from vkubelet.kubelet import Kubelet
from vkubelet.supervision import run_component, wait_for_signal

logger = logging.getLogger("process_nodes")

# Nothing of the product's own: to it these are nodes as any other.
_PREFIX = "process-nodes.test"


def build_policy(address: str) -> KubeletPolicy:
    """Build the policy: each pod runs, whatever its namespace and controller."""
    return KubeletPolicy(
        owner_labels={f"{_PREFIX}/owned": "true"},
        address=address,
        bind_address=address,
        namespaces=ALL_NAMESPACES,
        daemonset_pods=DaemonSetPolicy.REFLECT,
        field_manager="process-nodes",
        cordon_annotation=f"{_PREFIX}/cordoned",
        taints_annotation=f"{_PREFIX}/taints",
    )


async def run(arguments: argparse.Namespace, folder: Path) -> None:
    """Run the nodes until a signal comes."""
    access = await load_kubeconfig(arguments.kubeconfig, None)
    async with (
        KubeClient(access, name="home") as client,
        open_provider(
            nodes_file=arguments.nodes,
            folder=folder / "pods",
            address=arguments.address,
            client=client,
        ) as provider,
    ):
        policy = build_policy(arguments.address)
        certificates = CsrCertificates(
            client, folder / "certificates", labels=policy.owner_labels, approve=True
        )
        kubelet = Kubelet(provider, client, certificates, policy)
        async with asyncio.TaskGroup() as group:
            group.create_task(run_component("kubelet", kubelet.run), name="kubelet")
            await wait_for_signal()


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; ends with 2 if it's wrong."""
    parser = argparse.ArgumentParser(
        prog="process_nodes", description="Runs the pods of a test cluster as processes."
    )
    parser.add_argument("--kubeconfig", type=Path, required=True, help="an admin of the cluster")
    parser.add_argument(
        "--nodes", type=Path, required=True, help="file of nodes; read again when it changes"
    )
    parser.add_argument("--address", default="127.0.0.1", help="InternalIP of all nodes")
    parser.add_argument(
        "--data-dir", type=Path, help="keys and the pods' folders; default: temporary"
    )
    arguments = parser.parse_args(argv)
    try:
        read_nodes(arguments.nodes)
        build_policy(arguments.address)
    except NodesFileError as error:
        parser.error(f"--nodes: {error}")
    except ValueError as error:
        parser.error(f"--address: {error}")
    return arguments


def main(argv: Sequence[str]) -> int:
    """Run; 0 when a signal asked for the end."""
    arguments = parse_arguments(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    exit_code = 0
    with tempfile.TemporaryDirectory(prefix="process-nodes-") as temporary:
        try:
            asyncio.run(run(arguments, arguments.data_dir or Path(temporary)))
        except* ShutdownRequested:
            logger.info("stopped")
        except* AccessError as errors:
            logger.error("--kubeconfig: %s", errors.exceptions[0])  # noqa: TRY400 - no bug
            exit_code = 2
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
