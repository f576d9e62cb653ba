"""The namespaces on either side, and the Pod Security of the remote ones."""

from collections.abc import Iterator

from provider.checkup.finding import Finding, failure, ok, skipped, warning
from provider.checkup.surroundings import Surroundings
from provider.peering import Peering
from provider.pods.namespaces import build_namespace_name
from vkubelet.kube.errors import ForbiddenError, NotFoundError
from vkubelet.kube.objects import NAMESPACES, KubeObject, NamespacedName

ENFORCE = "pod-security.kubernetes.io/enforce"
SYSTEM = ("kube-system", "kube-public", "kube-node-lease")
LEVELS = ("restricted", "baseline", "privileged")


async def check_namespaces(around: Surroundings) -> list[Finding]:
    """Check that the named home namespaces are there, and the remote ones free or ours."""
    config = around.config.namespaces
    names = [name for name in config.names if name != "*"]
    findings = [
        warning(f"{name} is never reflected: it's one of Kubernetes' own")
        for name in names
        if name in SYSTEM
    ]
    for name in names:
        try:
            await around.home.get(NAMESPACES, NamespacedName("", name))
        except NotFoundError:
            findings.append(
                warning(
                    f"home has no namespace {name}",
                    "pods are reflected once it's there",
                    f"kubectl create namespace {name}",
                )
            )
        except ForbiddenError:
            break
    if config.selector is not None:
        selected = await around.home.list(NAMESPACES, label_selector=config.selector)
        if not selected:
            findings.append(warning(f"no namespace has labels that match {config.selector}"))
    findings += await _check_remote(around, names)
    return findings or [ok(_describe(names, everything="*" in config.names))]


def _describe(names: list[str], *, everything: bool) -> str:
    return "all but Kubernetes' own are reflected" if everything else f"reflected: {names}"


async def _check_remote(around: Surroundings, names: list[str]) -> list[Finding]:
    peering = await around.peering()
    findings: list[Finding] = []
    for remote in await _find_remote(around, peering, names):
        name = remote["metadata"]["name"]
        labels = remote["metadata"].get("labels") or {}
        if not peering.owns_labels(labels) and not around.config.namespaces.adopt:
            findings.append(
                failure(
                    f"the remote namespace {name} exists and isn't of this peering",
                    "--remote-namespace makes other names, --adopt-namespaces uses it all the same",
                )
            )
    return findings


async def _find_remote(
    around: Surroundings, peering: Peering, names: list[str]
) -> list[KubeObject]:
    """Read the remote namespaces that are there already."""
    template = around.config.namespaces.remote
    found = []
    for name in names:
        key = NamespacedName("", build_namespace_name(template, name, peering))
        try:
            found.append(await around.remote.get(NAMESPACES, key))
        except (NotFoundError, ForbiddenError):
            continue
    return found


async def check_pod_security(around: Surroundings) -> list[Finding]:
    """Check what pods may do in the remote namespaces that are there already."""
    peering = await around.peering()
    names = [name for name in around.config.namespaces.names if name != "*"]
    remote = await _find_remote(around, peering, names)
    if not remote:
        return [skipped("no remote namespace is there yet: it will be made with level baseline")]
    findings = [finding for namespace in remote for finding in _judge_level(namespace)]
    return findings or [ok("the remote namespaces enforce level baseline")]


def _judge_level(namespace: KubeObject) -> Iterator[Finding]:
    name = namespace["metadata"]["name"]
    level = (namespace["metadata"].get("labels") or {}).get(ENFORCE, "")
    if level == "restricted":
        yield warning(
            f"the remote namespace {name} enforces level restricted",
            "pods that home lets in may be refused there",
        )
    elif level not in LEVELS:
        yield warning(
            f"the remote namespace {name} enforces no Pod Security level",
            "whoever may make pods at home could take over nodes there",
            f"kubectl label namespace {name} {ENFORCE}=baseline",
        )
    elif level == "privileged":
        yield warning(
            f"the remote namespace {name} allows privileged pods",
            "whoever may make such pods at home could take over nodes there",
        )
