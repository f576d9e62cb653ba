"""Rights on both sides."""

from collections.abc import Iterable, Sequence

from provider.app import list_home_rights
from provider.checkup.finding import Finding, failure, ok, warning
from provider.checkup.surroundings import Surroundings
from provider.node_config import ForeignUse
from provider.pods.namespaces import build_namespace_name
from provider.rights import (
    Identity,
    Right,
    dependent_rights,
    explain_missing,
    find_missing_rights,
    remote_rights,
)
from provider.stats.metrics_api import NODE_METRICS, POD_METRICS
from provider.translation.tokens import ApiAccess


def metrics_rights(namespaces: Sequence[str] = ()) -> tuple[Right, ...]:
    """
    List what is wanted in the remote cluster to know what pods and nodes use.

    Args:
        namespaces: Where pods are followed; none: in the whole cluster.
    """
    of_pods = (Right("list", POD_METRICS, namespace=name) for name in namespaces or ("",))
    return (Right("list", NODE_METRICS), *of_pods)


async def check_home_rights(around: Surroundings) -> list[Finding]:
    """Check every right that the process needs at home, and those in reflected namespaces."""
    config = around.config
    identity, who = None, "the home credentials"
    if around.service_account is not None:
        identity = Identity.of_service_account(around.service_account)
        who = f"service account {around.service_account}"
    needed = list_home_rights(config.namespaces, config.kubelet, around.lock)
    missing = await find_missing_rights(around.home, needed, identity)
    tokens = config.pods.api_access is ApiAccess.HOME
    wanted = [
        right
        for namespace in (config.namespaces.names if config.namespaces.all_named else ("",))
        for right in dependent_rights(namespace, tokens=tokens)
    ]
    lacking = await find_missing_rights(around.home, wanted, identity)
    findings = _report(who, needed, missing, advice="docs/rbac/home.yaml has them all")
    if lacking:
        findings.append(
            warning(
                f"{who} may not {_join(lacking)}",
                "pods that use ConfigMaps, Secrets or tokens of home stay Pending there;"
                " docs/rbac/home-namespace.yaml has the rights for a namespace",
            )
        )
    return findings


async def check_remote_rights(around: Surroundings) -> list[Finding]:
    """Check every right that the process needs in the remote cluster."""
    config = around.config
    peering = await around.peering()
    is_scoped = config.capacity.foreign_use is ForeignUse.IGNORE and config.namespaces.all_named
    namespaces = [
        build_namespace_name(config.namespaces.remote, name, peering)
        for name in (config.namespaces.names if is_scoped else ())
    ]
    needed = remote_rights(namespaces)
    missing = await find_missing_rights(around.remote, needed)
    advice = explain_missing(missing) or "docs/rbac/remote.yaml has them all"
    findings = _report("the remote credentials", needed, missing, advice=advice)
    unknown = await find_missing_rights(around.remote, metrics_rights(namespaces))
    if unknown:
        findings.append(
            warning(
                f"the remote credentials may not {_join(unknown)}",
                "kubectl top shows nothing of virtual nodes and their pods; all else works",
            )
        )
    return findings


def _report(
    who: str, needed: Sequence[Right], missing: Sequence[Right], *, advice: str
) -> list[Finding]:
    if not missing:
        return [ok(f"all {len(needed)} rights are there for {who}")]
    return [failure(f"{who} may not {right}", advice) for right in missing]


def _join(rights: Iterable[Right]) -> str:
    return ", ".join(map(str, rights))
