"""
Helm: built once, and run against a test cluster.

`python -m tests.cluster.helm` (`make binaries`) builds it unless it's there.
"""

import sys
from pathlib import Path

from tests.cluster.binaries import run_tool
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.go_program import GoProgram
from tests.cluster.kubectl import Completed, run_kubectl

PROGRAM = GoProgram("helm", "3.22.0", "helm.sh/helm/v3", package="helm.sh/helm/v3/cmd/helm")

_TIMEOUT_SECONDS = 90.0


async def run_helm(
    *args: str,
    cluster: Cluster,
    stdin: str = "",
    check: bool = True,
    kubeconfig: Path | None = None,
) -> Completed:
    """
    Run helm to its end, as the cluster's admin unless a kubeconfig is given.

    Raises:
        ClusterError: If it fails or takes too long; the text has its output.
    """
    config = kubeconfig or cluster.admin_kubeconfig
    completed = await run_kubectl(
        [str(PROGRAM.locate()), f"--kubeconfig={config}", *args],
        name=f"{cluster.name}: helm {' '.join(args)}",
        home=cluster.folder,
        env={},
        stdin=stdin,
        timeout_seconds=_TIMEOUT_SECONDS,
    )
    if check and completed.returncode != 0:
        raise ClusterError(
            f"{completed.name}: exit code {completed.returncode}\n"
            f"{completed.stdout}{completed.stderr}"
        )
    return completed


if __name__ == "__main__":
    sys.exit(run_tool(PROGRAM.make))
