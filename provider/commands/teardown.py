"""`vkubelet teardown`: remove everything that a peering left behind."""

import asyncio
import os
import socket
import sys
from contextlib import AsyncExitStack

from provider.app import identify_peering, load_home_access
from provider.commands.launch import run_to_end
from provider.config import HomeConfig, HomeTeardownConfig, RemoteAccessConfig, TeardownConfig
from provider.errors import ConfigError, StartError
from provider.lock import find_lock_key
from provider.peering import Peering
from provider.teardown.inventory import Inventory, name_object, take_inventory
from provider.teardown.liveness import find_running_process
from provider.teardown.steps import Teardown
from vkubelet.errors import LeaseLostError
from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError, NotFoundError, UnreachableError
from vkubelet.kube.leader import LeaderLock
from vkubelet.kube.objects import LEASES, PODS
from vkubelet.supervision import run_component

LOCK_SECONDS = 30.0
"""A lock that nobody renews is free after 15 s."""


def main(config: TeardownConfig | HomeTeardownConfig, *, yes: bool, dry_run: bool) -> int:
    """
    Tear the peering down.

    Args:
        config: Which peering; without a remote kubeconfig just its home side.
        yes: Don't ask.
        dry_run: Show what would be removed, and remove nothing.

    Raises:
        ConfigError: If nobody can be asked.
        StartError: If it can't be done.
    """
    if not (yes or dry_run or sys.stdin.isatty()):
        raise ConfigError("--yes is needed where nobody can be asked (or --dry-run, to look)")
    return run_to_end(lambda: tear_down(config, yes=yes, dry_run=dry_run))


async def tear_down(
    config: TeardownConfig | HomeTeardownConfig, *, yes: bool, dry_run: bool
) -> int:
    """
    Tear down, in a running loop; see `main`.

    Raises:
        StartError: If it can't be done.
    """
    try:
        async with AsyncExitStack() as stack:
            access = await load_home_access(config.home)
            home = await stack.enter_async_context(KubeClient(access, name="home"))
            remote = None
            if isinstance(config.remote, RemoteAccessConfig):
                remote = await stack.enter_async_context(await _open_remote(config.remote))
            peering = await identify_peering(home, config.home.cluster, config.remote.cluster)
            run = _Run(config.home, home, remote, peering)
            drain_seconds = config.removal.drain_timeout.seconds
            return await run.run(yes=yes, dry_run=dry_run, drain_seconds=drain_seconds)
    except* (KubeError, LeaseLostError) as errors:
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise StartError(f"{error}; what is removed is removed, run it again") from errors


async def _open_remote(config: RemoteAccessConfig) -> KubeClient:
    """
    Make the remote client, if there is somebody at the other end.

    Raises:
        StartError: If not: the user has to say that this is known.
    """
    advice = "if it's gone for good, --home-only removes just the home side"
    try:
        access = await load_kubeconfig(
            config.kubeconfig,
            config.context,
            allow_exec=config.allow_exec,
            allow_outside_files=config.allow_files,
        )
        async with KubeClient(access, name="remote") as probe:
            await probe.get_bytes("/version")
    except UnreachableError as error:
        raise StartError(f"the remote cluster can't be reached: {error}; {advice}") from error
    except KubeError as error:
        raise StartError(f"{error}; {advice}") from error
    return KubeClient(access, name="remote")


class _Run:
    """One teardown: look, ask, remove."""

    def __init__(
        self, config: HomeConfig, home: KubeClient, remote: KubeClient | None, peering: Peering
    ) -> None:
        self._home = home
        self._remote = remote
        self._peering = peering
        self._lock = find_lock_key(config.system_namespace, peering.remote_cluster)

    async def run(self, *, yes: bool, dry_run: bool, drain_seconds: float) -> int:
        inventory = await take_inventory(self._home, self._remote, self._peering)
        await self._check_nobody_runs(inventory)
        if inventory.is_empty:
            await self._remove_lock(dry_run=dry_run)
            _say(f"nothing of the peering with {self._peering.remote_cluster} is left")
            return 0
        _say(f"of the peering with {self._peering.remote_cluster} there are:")
        for line in describe(inventory):
            _say(f"  {line}")
        if dry_run:
            return 0
        if not yes and not await asyncio.to_thread(_ask):
            _say("nothing was removed")
            return 1
        return await self._remove(inventory, drain_seconds)

    async def _check_nobody_runs(self, inventory: Inventory) -> None:
        """
        Look whether a process serves the peering.

        Raises:
            StartError: Names it.
        """
        who = await find_running_process(
            self._home,
            self._lock,
            [node.key.name for node in inventory.nodes],
            lambda what: _say(f"looking whether a process still runs: {what} …"),
        )
        if who is not None:
            raise StartError(f"a process of this peering runs ({who}): stop it first")

    async def _remove(self, inventory: Inventory, drain_seconds: float) -> int:
        """Remove it, and hold the lock meanwhile, so that no process starts."""
        lock = LeaderLock(
            self._home,
            namespace=self._lock.namespace,
            name=self._lock.name,
            identity=f"{socket.gethostname()}_{os.getpid()}_teardown",
        )
        try:
            async with asyncio.timeout(LOCK_SECONDS):
                await lock.acquire(lambda holder: _say(f"waiting for the lock of {holder} …"))
        except TimeoutError:
            raise StartError(f"another process holds the lock {self._lock}") from None
        try:
            async with asyncio.TaskGroup() as holding:
                renewing = holding.create_task(run_component("lock", lock.run), name="lock")
                teardown = Teardown(self._home, self._remote, self._peering, _say)
                is_done = await teardown.run(inventory, drain_seconds=drain_seconds)
                renewing.cancel()
        finally:
            await lock.release()
        if not is_done:
            _say("not all of it could be removed: run it again later")
            return 1
        await self._remove_lock(dry_run=False)
        _say("done")
        return 0

    async def _remove_lock(self, *, dry_run: bool) -> None:
        """Remove the lock; it's free, and whoever takes it meanwhile keeps it."""
        try:
            lease = await self._home.get(LEASES, self._lock)
        except NotFoundError:
            return
        if dry_run:
            _say(f"home: Lease {self._lock} is left")
            return
        metadata = lease["metadata"]
        await self._home.delete(
            LEASES, self._lock, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
        )


def describe(inventory: Inventory) -> list[str]:
    """Name everything that would be removed."""
    return [
        *(f"home: {node}" for node in inventory.nodes),
        *(f"home: {name_object(PODS, pod)}, on a virtual node" for pod in inventory.home_pods),
        *(f"remote: {name_object(PODS, pod)}" for pod in inventory.remote_pods),
        *(f"remote: {found}" for found in (*inventory.config_maps, *inventory.namespaces)),
    ]


def _ask() -> bool:
    sys.stdout.write("Evict these pods and remove all of it? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
