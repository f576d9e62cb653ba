"""
Start a home and a remote cluster and keep them until Ctrl-C, for trying things by hand.

`make clusters` runs it (`python -m tests.cluster.up`).
"""

import asyncio
import sys
import time

from tests.cluster.binaries import BinariesMissingError
from tests.cluster.cluster import start_clusters
from tests.cluster.errors import ClusterError
from tests.cluster.gobuild import BuildError
from vkubelet.errors import ShutdownRequested
from vkubelet.supervision import wait_for_signal


async def _run() -> None:
    started = time.monotonic()
    async with start_clusters("home", "remote") as clusters:
        print(f"ready in {time.monotonic() - started:.1f} s")
        for cluster in clusters:
            print(f"{cluster.name}: export KUBECONFIG={cluster.admin_kubeconfig}")
        kubectl = clusters[0].build_kubectl_command()[0]
        print(f"kubectl: {kubectl}\nCtrl-C ends them", flush=True)
        await wait_for_signal()


def main() -> int:
    """Run until a signal arrives."""
    try:
        asyncio.run(_run())
    except (BinariesMissingError, BuildError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ShutdownRequested:
        print("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
