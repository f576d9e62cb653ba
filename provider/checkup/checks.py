"""All checks, in order, and how they are run."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from provider.app import load_home_access
from provider.checkup import (
    access,
    certificates,
    daemonsets,
    kubelet_port,
    leftovers,
    namespaces,
    pod_cidr,
    servers,
    trial,
    virtual_nodes,
)
from provider.checkup.finding import CheckResult, Finding, failure, skipped
from provider.checkup.names import HOME_API, KUBELET_PORT, POD, REMOTE_API
from provider.checkup.surroundings import Surroundings
from provider.command_config import CheckConfig
from provider.mapping.errors import MappingError
from provider.mapping.groups import NodeMapping
from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ForbiddenError, KubeError
from vkubelet.kube.objects import NamespacedName

REQUEST_TIMEOUT_SECONDS = 15.0

Run = Callable[[Surroundings], Awaitable[list[Finding]]]

CHECKS: dict[str, Run] = {
    "versions": servers.check_versions,
    "clocks": servers.check_clocks,
    "home-rights": access.check_home_rights,
    "remote-rights": access.check_remote_rights,
    "namespaces": namespaces.check_namespaces,
    "pod-security": namespaces.check_pod_security,
    "virtual-nodes": virtual_nodes.check_virtual_nodes,
    "certificates": certificates.check_certificates,
    KUBELET_PORT: kubelet_port.check_kubelet_port,
    "daemonsets": daemonsets.check_daemonsets,
    "pod-cidr": pod_cidr.check_pod_cidr,
    "peering": leftovers.check_peering,
    "leftovers": leftovers.check_leftovers,
}
"""What needs both clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """
    What is said anew each time.

    Attributes:
        only: Names of the checks that are run; none: all.
        service_account: Whose rights at home matter; None: those of the home credentials.
        probe: Whether the kubelet port is tried by a Node of its own.
        image: Of a pod that is run as a trial, None: none is.
        command: What that pod runs.
    """

    only: Collection[str] = ()
    service_account: NamespacedName | None = None
    probe: bool = False
    image: str | None = None
    command: Sequence[str] = ()

    def wants(self, name: str) -> bool:
        """Whether a check is run."""
        return not self.only or name in self.only


async def run_checks(
    config: CheckConfig, mapping: NodeMapping, options: CheckOptions
) -> AsyncIterator[CheckResult]:
    """Yield what each check finds, as soon as it's known; what can't be looked at is a finding."""
    async with AsyncExitStack() as stack:
        home = await _open(stack, "home", lambda: _connect_home(config))
        remote = await _open(stack, "remote", lambda: _connect_remote(config))
        for name, opened in ((HOME_API, home), (REMOTE_API, remote)):
            if isinstance(opened, Finding) or options.wants(name):
                yield CheckResult(name, await _check_api(opened))
        if isinstance(home, Finding) or isinstance(remote, Finding):
            return
        around = Surroundings(config, mapping, home, remote, options.service_account)
        for name, run in _choose(options).items():
            yield CheckResult(name, tuple(await _guard(run, around)))


async def _open(
    stack: AsyncExitStack, name: str, connect: Callable[[], Awaitable[KubeClient]]
) -> KubeClient | Finding:
    """Open a client that somebody answers; else say why not."""
    try:
        client = await stack.enter_async_context(await connect())
        await client.get_bytes("/version")
    except KubeError as error:
        return failure(
            f"{name}: {error}",
            "everything else is checked once both API servers answer",
        )
    return client


async def _connect_home(config: CheckConfig) -> KubeClient:
    access_ = await load_home_access(config.home)
    return KubeClient(access_, name="home", request_timeout_seconds=REQUEST_TIMEOUT_SECONDS)


async def _connect_remote(config: CheckConfig) -> KubeClient:
    access_ = await load_kubeconfig(
        config.remote.kubeconfig,
        config.remote.context,
        allow_exec=config.remote.allow_exec,
        allow_outside_files=config.remote.allow_files,
    )
    return KubeClient(access_, name="remote", request_timeout_seconds=REQUEST_TIMEOUT_SECONDS)


async def _check_api(opened: KubeClient | Finding) -> tuple[Finding, ...]:
    if isinstance(opened, Finding):
        return (opened,)
    try:
        return (await servers.check_api(opened),)
    except KubeError as error:
        return (failure(str(error)),)


def _choose(options: CheckOptions) -> dict[str, Run]:
    chosen = dict(CHECKS)
    if options.probe:
        chosen[KUBELET_PORT] = kubelet_port.probe_kubelet_port
    if options.image is not None:
        image = options.image
        chosen[POD] = lambda around: trial.try_pod(around, image, options.command)
    return {name: run for name, run in chosen.items() if options.wants(name)}


async def _guard(run: Run, around: Surroundings) -> list[Finding]:
    """Run a check; what keeps it from looking is a finding, too."""
    try:
        return await run(around)
    except ForbiddenError as error:
        return [skipped(f"it may not be looked at: {error.message}")]
    except (KubeError, MappingError) as error:
        return [failure(str(error))]
