"""Who serves this peering, and what earlier ones left behind."""

from collections.abc import Iterable, Iterator

from provider.checkup.finding import Finding, ok, warning
from provider.checkup.surroundings import Surroundings
from provider.labels import HOME_CLUSTER, PEERING
from provider.overview.collect import take_overview
from provider.overview.report import Overview, PeeringStatus
from provider.peering import Peering
from vkubelet.kube.errors import ForbiddenError
from vkubelet.kube.objects import NAMESPACES, KubeObject
from vkubelet.times import utc_now


async def check_peering(around: Surroundings) -> list[Finding]:
    """Check who serves this peering."""
    overview = await _look(around)
    name = around.config.remote.cluster
    ours = next((item for item in overview.peerings if item.name == name), None)
    return list(_judge_peering(ours)) or [ok("nobody serves it yet")]


def _judge_peering(peering: PeeringStatus | None) -> Iterator[Finding]:
    if peering is None:
        return
    held = [lock for lock in peering.locks if lock.is_held]
    if len(held) > 1:
        yield warning(
            f"{len(held)} processes serve it: {', '.join(str(lock.key) for lock in held)}",
            "stop all but one: they have different --system-namespace",
        )
        return
    for lock in held:
        state = "" if peering.vitals is None else f", version {peering.vitals.version}"
        reason = "" if peering.vitals is None else peering.vitals.not_ready
        if reason:
            yield warning(f"{lock.holder} serves it{state}, and isn't ready: {reason}")
        else:
            yield ok(f"{lock.holder} serves it{state}; another process would wait for it")


async def _look(around: Surroundings) -> Overview:
    return await take_overview(around.home, None, around.lock.namespace, utc_now())


async def check_leftovers(around: Surroundings) -> list[Finding]:
    """Check for virtual nodes and remote namespaces of peerings that nobody serves."""
    peering = await around.peering()
    overview = await _look(around)
    served = {item.name for item in overview.peerings if any(lock.is_held for lock in item.locks)}
    findings = list(_judge_home(overview, served, peering.remote_cluster))
    try:
        namespaces = await around.remote.list(
            NAMESPACES, label_selector=f"{HOME_CLUSTER}={peering.home_uid}"
        )
    except ForbiddenError:
        namespaces = []
    findings += _judge_remote(namespaces, served, peering)
    return findings or [ok("nothing of other peerings is left behind")]


def _judge_home(overview: Overview, served: set[str], ours: str) -> Iterator[Finding]:
    for item in overview.peerings:
        if item.nodes and item.name not in served and item.name != ours:
            yield warning(
                f"home has {len(item.nodes)} virtual nodes of the peering {item.name}, which"
                " nobody serves",
                "start its process, or remove them",
                f"vkubelet teardown --remote-cluster={item.name} --remote-kubeconfig=FILE",
            )


def _judge_remote(
    namespaces: Iterable[KubeObject], served: set[str], peering: Peering
) -> Iterator[Finding]:
    """Tell of remote namespaces of this home that belong to no peering that is served."""
    of_peering: dict[str, list[str]] = {}
    for namespace in namespaces:
        metadata = namespace["metadata"]
        of_peering.setdefault(metadata["labels"].get(PEERING, ""), []).append(metadata["name"])
    for name, found in sorted(of_peering.items()):
        if name == peering.remote_cluster or name in served:
            continue
        yield warning(
            f"the remote cluster has namespaces of the peering {name}, which nobody serves:"
            f" {', '.join(sorted(found))}",
            "remove them, if they aren't needed",
            f"vkubelet teardown --remote-cluster={name} --remote-kubeconfig=FILE",
        )
