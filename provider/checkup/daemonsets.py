"""DaemonSets of home that would put a pod on each virtual node, and how to keep them off."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from provider.checkup.finding import Finding, ok, skipped, warning
from provider.checkup.surroundings import Surroundings
from provider.labels import TYPE, TYPE_VIRTUAL_KUBELET
from vkubelet.config import DaemonSetPolicy
from vkubelet.interface import Taint, VirtualNode
from vkubelet.kube.errors import ForbiddenError
from vkubelet.kube.objects import KubeObject, Resource
from vkubelet.kube.selector import Operator, Requirement

DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")

_CONSEQUENCES = {
    DaemonSetPolicy.PLACEHOLDER: "its pods there are shown as Running and do nothing",
    DaemonSetPolicy.PENDING: "its pods there stay Pending, which holds up its rollouts everywhere",
    DaemonSetPolicy.REFLECT: "its pods there run in the remote cluster",
}
_OFF = {"key": TYPE, "operator": "NotIn", "values": [TYPE_VIRTUAL_KUBELET]}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


async def check_daemonsets(around: Surroundings) -> list[Finding]:
    """Check which DaemonSets would come."""
    planned = await around.planned()
    try:
        daemon_sets = await around.home.list(DAEMON_SETS)
    except ForbiddenError:
        return [skipped("DaemonSets may not be listed")]
    policy = around.config.pods.daemonsets
    return judge_daemonsets(daemon_sets, list(planned.nodes.values()), policy) or [
        ok(f"none of {len(daemon_sets)} DaemonSets would come to a virtual node")
    ]


def judge_daemonsets(
    daemon_sets: Iterable[KubeObject], nodes: Iterable[VirtualNode], policy: DaemonSetPolicy
) -> list[Finding]:
    """Find the DaemonSets that would come to one of the nodes."""
    there = list(nodes)
    findings = []
    for daemon_set in daemon_sets:
        count = sum(_comes(daemon_set, node) for node in there)
        if not count:
            continue
        metadata = daemon_set["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        patch = msgspec.json.encode(build_patch(daemon_set)).decode()
        findings.append(
            warning(
                f"DaemonSet {namespace}/{name} would come to {count} of {len(there)} virtual"
                f" nodes: {_CONSEQUENCES[policy]}",
                "keep it off by node affinity",
                f"kubectl patch daemonset {name} --namespace={namespace} --type=merge"
                f" --patch='{patch}'",
            )
        )
    return findings


def _template(daemon_set: KubeObject) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = daemon_set["spec"]["template"]["spec"]
    return spec


def _terms(spec: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """Return the terms of the required node affinity, None if there is none."""
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get(_REQUIRED)
    return None if required is None else list(required.get("nodeSelectorTerms") or ())


def build_patch(daemon_set: KubeObject) -> KubeObject:
    """Build the merge patch that keeps it off virtual nodes: in every term, as one is enough."""
    terms = _terms(_template(daemon_set))
    kept = [{"matchExpressions": [_OFF]}] if terms is None else [_keep_off(term) for term in terms]
    affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": kept}}}
    return {"spec": {"template": {"spec": {"affinity": affinity}}}}


def _keep_off(term: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the requirement to a term; one without any matches nothing, and has to stay so."""
    expressions = term.get("matchExpressions") or ()
    if not expressions and not term.get("matchFields"):
        return term
    return {**term, "matchExpressions": [*expressions, _OFF]}


def _comes(daemon_set: KubeObject, node: VirtualNode) -> bool:
    spec = _template(daemon_set)
    labels = node.labels
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = _terms(spec)
    if terms is not None and not any(_term_holds(term, node) for term in terms):
        return False
    tolerations = spec.get("tolerations") or ()
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations) for taint in node.taints
    )


def _term_holds(term: Mapping[str, Any], node: VirtualNode) -> bool:
    fields = {"metadata.name": node.name}
    requirements = [
        *_holding(term.get("matchExpressions") or (), node.labels),
        *_holding(term.get("matchFields") or (), fields),
    ]
    return bool(requirements) and all(requirements)


def _holding(
    requirements: Iterable[Mapping[str, Any]], labels: Mapping[str, str]
) -> Iterator[bool]:
    for item in requirements:
        operator, values = Operator(item["operator"]), tuple(item.get("values") or ())
        yield Requirement(item["key"], operator, values).matches(labels)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    if (key and key != taint.key) or (effect and effect != taint.effect):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == taint.value
