"""
The main job end to end on two real control planes: `make demo`.

Each step prints the command that a user would type and its real output, and is checked. It stays
up until Ctrl-C; with EXIT=1 it ends by itself, with exit code 0 only if every step gave what it
should. MAPPING=selector, label, per-node or split shows another node mapping than `cluster`.
"""

import asyncio
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.syntax import Syntax

from tests.cluster.binaries import BinariesMissingError
from tests.cluster.cluster import Cluster, start_clusters
from tests.cluster.errors import ClusterError
from tests.cluster.kubectl import Completed
from tests.cluster.peering import (
    USER,
    PhysicalNodes,
    Vkubelet,
    build_environment,
    grant_rights,
    run_vkubelet,
)
from tests.cluster.waiting import wait_until
from tests.demo_modes import (
    MODES,
    PHYSICAL_NODES,
    Mode,
    build_deployment,
    build_foreign_pod,
)
from vkubelet.errors import ShutdownRequested
from vkubelet.supervision import interruptible

NAMESPACE = "demo"
STEP_TIMEOUT_SECONDS = 60.0


class Demo:
    """The steps, and what went wrong in them."""

    def __init__(self, console: Console, home: Cluster, remote: Cluster, mode: Mode) -> None:
        self._console = console
        self._home = home
        self._remote = remote
        self._mode = mode
        self._step = 0
        self.failures: list[str] = []

    async def prepare(self) -> None:
        """Show the remote cluster, and what the mode would make of it."""
        self._title("The remote cluster's nodes")
        for command in self._mode.labels:
            await self._kubectl(self._remote, "label", "node", *command)
        await self._kubectl(self._remote, "get", "nodes", "-L", self._mode.column)
        self._title("What there would be: vkubelet plan")
        await self._plan()

    async def run(self) -> None:
        """Show everything, step by step."""
        await self._show_nodes()
        await self._show_check()
        await self._deploy()
        await self._show_affinity()
        await self._show_streams()
        await self._show_status()
        await self._delete()
        if self._mode.changes:
            await self._change()
        if self._mode.foreign_node:
            await self._show_foreign_use(self._mode.foreign_node)

    async def _plan(self) -> None:
        output = await self._vkubelet("plan", *self._remote_flags)
        for name in self._mode.virtual_nodes:
            self._check(name in output, f"{name} is planned")

    @property
    def _remote_flags(self) -> list[str]:
        return [
            f"--remote-kubeconfig={self._remote.kubeconfig_for(USER)}",
            "--remote-cluster=cloud",
            *self._mode.arguments,
        ]

    async def _vkubelet(self, *arguments: str) -> str:
        """Run another of our commands, and show what it says."""
        self._console.print(f"[bold]$ vkubelet {shlex.join(arguments)}", soft_wrap=True)
        code, output = await _run_provider(*arguments)
        self._console.print(output.rstrip(), highlight=False, markup=False, soft_wrap=True)
        self._check(code == 0, f"exit code 0 of vkubelet {arguments[0]}", quiet=True)
        return output

    async def _show_check(self) -> None:
        self._title("Does it work? vkubelet check")
        home = f"--kubeconfig={self._home.admin_kubeconfig}"
        flags = [home, *self._remote_flags, f"--namespace={NAMESPACE}", "--approve-csr"]
        await self._vkubelet("check", *flags)

    async def _show_status(self) -> None:
        self._title("What is there: vkubelet status")
        command = ("status", f"--kubeconfig={self._home.admin_kubeconfig}")

        async def told() -> bool:  # the process tells how it fares every few seconds
            return "Peering cloud: ready" in (await _run_provider(*command))[1]

        await wait_until(told, "the peering is ready", timeout_seconds=STEP_TIMEOUT_SECONDS)
        output = await self._vkubelet(*command)
        self._check("2 Running" in output, "two pods run")

    async def _show_nodes(self) -> None:
        self._title("The virtual nodes at home")
        shown = await self._kubectl(self._home, "get", "nodes", "-o", "wide")
        for name in self._mode.virtual_nodes:
            self._check(
                any(line.split()[:2] == [name, "Ready"] for line in shown.stdout.splitlines()),
                f"the node {name} is Ready",
            )

    async def _change(self) -> None:
        self._title("A physical node changes its label")
        for command in self._mode.changes:
            await self._kubectl(self._remote, "label", "node", *command, "--overwrite")
        for name, cores in self._mode.after_change.items():
            await self._wait_allocatable(name, cores)
        await self._show_allocatable()

    async def _show_foreign_use(self, node: str) -> None:
        self._title(f"Somebody else's pod takes 3 of the 4 cores of {node}")
        pod = build_foreign_pod(node)
        await self._kubectl(self._remote, "apply", "-f", "-", stdin=pod)
        await self._wait_allocatable(f"cloud-{node}", "1")
        await self._show_allocatable()
        self._title("What doesn't fit over there isn't scheduled at home")
        deployment = build_deployment("large", f"cloud-{node}", replicas=1, cpu="2")
        await self._kubectl(self._home, "apply", "-f", "-", stdin=deployment)
        waited = await self._kubectl(
            self._home,
            "wait",
            "--for=jsonpath={.status.conditions[0].reason}=Unschedulable",
            *("pod", "-l=app=large", f"-n={NAMESPACE}", "--timeout=30s"),
        )
        self._check("condition met" in waited.stdout, "home's scheduler says so")
        await self._kubectl(self._home, "get", "pods", "-o", "wide", f"-n={NAMESPACE}")

    async def _show_allocatable(self) -> None:
        columns = "NAME:.metadata.name,CPU:.status.allocatable.cpu,PODS:.status.allocatable.pods"
        await self._kubectl(self._home, "get", "nodes", "-o", f"custom-columns={columns}")

    async def _wait_allocatable(self, node: str, cores: str) -> None:
        async def offers() -> bool:
            path = "jsonpath={.status.allocatable.cpu}"
            shown = await self._home.kubectl("get", "node", node, "-o", path, check=False)
            return shown.stdout == cores

        what = f"{node} offers {cores} cores"
        try:
            await wait_until(offers, what, timeout_seconds=STEP_TIMEOUT_SECONDS)
        except ClusterError:
            self._check(False, what)
        else:
            self._check(True, what)

    async def _deploy(self) -> None:
        self._title("A Deployment at home that tolerates virtual nodes")
        deployment = build_deployment("hello", self._mode.target)
        self._console.print(Syntax(deployment, "yaml", background_color="default"))
        await self._kubectl(self._home, "apply", "-f", "-", stdin=deployment)
        await self._kubectl(
            self._home,
            "rollout",
            "status",
            "deployment/hello",
            f"--namespace={NAMESPACE}",
            f"--timeout={STEP_TIMEOUT_SECONDS:.0f}s",
        )
        self._title("Its pods, seen from both sides")
        here = await self._kubectl(self._home, "get", "pods", "-o", "wide", f"-n={NAMESPACE}")
        self._check(here.stdout.count("Running") == 2, "two pods run at home's view")
        there = await self._kubectl(self._remote, "get", "pods", "-o", "wide", "-A")
        self._check(there.stdout.count("Running") == 2, "two pods run in the remote cluster")
        nodes = {line.split()[7] for line in there.stdout.splitlines()[1:]}
        allowed = " or ".join(self._mode.lands)
        self._check(nodes <= set(self._mode.lands), f"they are on {allowed} only")

    async def _show_affinity(self) -> None:
        self._title("The affinity that was injected into a remote pod")
        path = "jsonpath={.items[0].spec.affinity}"
        shown = await self._kubectl(
            self._remote, "get", "pods", "-A", "-o", path, show=_pretty_json
        )
        self._check(
            "requiredDuringSchedulingIgnoredDuringExecution" in shown.stdout,
            "the pod is confined to the nodes behind the virtual node",
        )

    async def _show_streams(self) -> None:
        self._title("Logs and exec, through both API servers")
        logs = await self._kubectl(self._home, "logs", "deployment/hello", f"-n={NAMESPACE}")
        self._check("hello from" in logs.stdout, "the log is the container's own")
        command = ["deployment/hello", f"-n={NAMESPACE}", "--", "sh", "-c", "exit 7"]
        ended = await self._kubectl(self._home, "exec", *command, check=False)
        self._console.print(f"exit code: {ended.returncode}")
        self._check(ended.returncode == 7, "exec gives the exit code of the command")

    async def _delete(self) -> None:
        self._title("Deleted at home, gone over there")
        await self._kubectl(self._home, "delete", "deployment", "hello", f"-n={NAMESPACE}")
        await self._wait_no_pods(self._home, "pods at home are gone")
        await self._wait_no_pods(self._remote, "pods in the remote cluster are gone")
        await self._kubectl(self._remote, "get", "pods", "-A")

    async def _wait_no_pods(self, cluster: Cluster, what: str) -> None:
        async def gone() -> bool:
            listed = await cluster.kubectl("get", "pods", "-A", "-o", "name")
            return not listed.stdout.strip()

        try:
            await wait_until(gone, what, timeout_seconds=STEP_TIMEOUT_SECONDS)
        except ClusterError:
            self._check(False, what)
        else:
            self._check(True, what)

    def _title(self, text: str) -> None:
        self._step += 1
        self._console.rule(f"[bold]{self._step}. {text}", align="left")

    async def _kubectl(
        self,
        cluster: Cluster,
        *args: str,
        stdin: str = "",
        check: bool = True,
        show: Callable[[str], str] = str.rstrip,
    ) -> Completed:
        command = shlex.join(["kubectl", *args])
        self._console.print(f"[cyan]{cluster.name:>6}[/] [bold]$ {command}", highlight=False)
        ended = await cluster.kubectl(
            *args, stdin=stdin, check=False, timeout=STEP_TIMEOUT_SECONDS + 10
        )
        text = show(ended.stdout) + ended.stderr.rstrip()
        if text:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)
        if check:
            self._check(ended.returncode == 0, f"exit code 0 of {command}", quiet=True)
        return ended

    def _check(self, is_right: bool, what: str, *, quiet: bool = False) -> None:
        if not is_right:
            self.failures.append(what)
            self._console.print(f"[red]✗ expected: {what}")
        elif not quiet:
            self._console.print(f"[green]✓ {what}")


async def _run_provider(*arguments: str) -> tuple[int, str]:
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "provider", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=build_environment(),
    )
    output, _ = await started.communicate()
    return await started.wait(), output.decode()


def _pretty_json(text: str) -> str:
    if not text.strip():
        return "(none)"
    return msgspec.json.format(text.encode(), indent=2).decode()


async def show(console: Console, mode: Mode, *, stay: bool) -> int:
    """Start everything, show it, and stay if asked to."""
    started = time.monotonic()
    console.print("starting a home and a remote control plane …")
    async with start_clusters("home", "remote") as (home, remote):
        console.print(f"both are ready after {time.monotonic() - started:.1f} s")
        await grant_rights(home, remote)
        await home.kubectl("create", "namespace", NAMESPACE)
        await PhysicalNodes(remote, PHYSICAL_NODES).start()
        demo = Demo(console, home, remote, mode)
        await demo.prepare()
        arguments = [f"--namespace={NAMESPACE}", *mode.arguments]
        async with run_vkubelet(
            home, remote, remote_cluster="cloud", arguments=arguments
        ) as vkubelet:
            _show_command(console, vkubelet)
            await demo.run()
            console.rule()
            for failure in demo.failures:
                console.print(f"[red]✗ {failure}")
            if not demo.failures:
                took = time.monotonic() - started
                console.print(f"[green]every step gave what it should ({took:.0f} s)")
            if stay:
                await _stay(console, home, remote, mode)
            return 1 if demo.failures else 0


def _show_command(console: Console, vkubelet: Vkubelet) -> None:
    console.print("[bold]running, with the rights of docs/rbac on either side:")
    console.print("vkubelet run \\", highlight=False)
    for argument in vkubelet.arguments:
        console.print(f"  {argument} \\", highlight=False, soft_wrap=True)


async def _stay(console: Console, home: Cluster, remote: Cluster, mode: Mode) -> None:
    kubectl = Path(home.build_kubectl_command()[0])
    console.print(
        "\nEverything stays up until Ctrl-C. In other terminals:\n"
        f"  export PATH={kubectl.parent}:$PATH\n"
        f"  export KUBECONFIG={home.admin_kubeconfig}     # home\n"
        f"  export KUBECONFIG={remote.admin_kubeconfig}   # remote\n"
        "At home, try:\n"
        f"  kubectl -n {NAMESPACE} create deployment try --image=any -- sh -c 'date; sleep 3600'\n"
        f"  kubectl -n {NAMESPACE} patch deployment try -p "
        '\'{"spec":{"template":{"spec":{"tolerations":[{"operator":"Exists"}]}}}}\'\n'
        f"  kubectl -n {NAMESPACE} exec -it deployment/try -- sh\n"
        f"  kubectl describe node {mode.virtual_nodes[0]}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    await asyncio.Event().wait()


async def run(console: Console, mode: Mode, *, stay: bool) -> int:
    """Show the demo; a signal ends it in order at any moment."""
    async with interruptible() as group:
        task = group.create_task(show(console, mode, stay=stay), name="demo")
        await asyncio.wait([task])
    return task.result()


def main() -> int:
    """Run the demo."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    stay = os.environ.get("EXIT", "") in ("", "0")
    name = os.environ.get("MAPPING", "") or "cluster"
    if name not in MODES:
        console.print(f"MAPPING={name}: there are {', '.join(MODES)}", style="red", markup=False)
        return 2
    exit_code = 1
    try:
        exit_code = asyncio.run(run(console, MODES[name], stay=stay))
    except* ShutdownRequested:
        console.print("stopped")
        exit_code = 0 if stay else 130
    except* (ClusterError, BinariesMissingError) as group:
        for error in group.exceptions:
            console.print(str(error), style="red", markup=False)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
