"""Home pod to remote pod."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from provider.labels import (
    HOME_CLUSTER,
    HOME_NAME,
    HOME_NAMESPACE,
    HOME_POD_UID,
    LAST_APPLIED,
    PEERING,
    PREFIX,
    VIRTUAL_NODE,
    make_label_value,
)
from provider.taints import AcceptedTaint
from provider.translation.affinity import VirtualNodeView, confine_pod
from provider.translation.downward import HomeFacts, rewrite_variable, rewrite_volume
from provider.translation.fields import POD_SPEC_FIELDS, REMOVED_FIELDS
from provider.translation.refusals import check_can_travel
from provider.translation.selection import Selection
from provider.translation.tokens import is_injected, is_token_volume
from provider.translation.tolerations import describe_lost_tolerations, translate_tolerations
from vkubelet.kube.objects import KubeObject


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationContext:
    """
    What a translation depends on beside the pod.

    Attributes:
        home_cluster_uid: UID of the home cluster's kube-system namespace.
        peering: Name of the remote cluster.
        remote_namespace: Where the remote pod will be.
        node: The virtual node that the home pod is bound to.
        selection: The physical nodes behind it.
        accepted_taints: Taints of physical nodes that reflected pods tolerate.
        anchor: Controller ownerReference of the remote pod; None if it's put on later.
        allow_host_access: Whether host access travels.
    """

    home_cluster_uid: str
    peering: str
    remote_namespace: str
    node: VirtualNodeView
    selection: Selection
    accepted_taints: tuple[AcceptedTaint, ...] = ()
    anchor: KubeObject | None = None
    allow_host_access: bool = False


@dataclass(frozen=True, slots=True)
class TranslatedPod:
    """
    A remote pod.

    Attributes:
        pod: As it is to be created; its metadata is the caller's own, deeper parts are shared with
            the home pod and must not be changed.
        warnings: What doesn't travel, a sentence each.
    """

    pod: KubeObject
    warnings: tuple[str, ...] = field(default=())


def translate_pod(pod: KubeObject, context: TranslationContext) -> TranslatedPod:
    """
    Make the remote pod of a home pod; the home pod isn't changed.

    Raises:
        RefusedError: If it can't run behind the virtual node as it is.
    """
    spec: KubeObject = pod["spec"]
    check_can_travel(spec, allow_host_access=context.allow_host_access)
    remote = {key: value for key, value in pod.items() if key != "status"}
    remote |= {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _build_metadata(pod["metadata"], context),
        "spec": _translate_spec(pod["metadata"], spec, context),
    }
    return TranslatedPod(remote, tuple(_find_warnings(spec, context)))


def _build_metadata(home: KubeObject, context: TranslationContext) -> KubeObject:
    """
    Build the metadata; only what is named here travels.

    Owners and finalizers of home mean nothing there: they would get the pod collected, or keep it.
    """
    labels = _without_ours(home.get("labels") or {})
    labels |= {
        HOME_CLUSTER: context.home_cluster_uid,
        PEERING: context.peering,
        VIRTUAL_NODE: make_label_value(context.node.name),
        HOME_POD_UID: home["uid"],
    }
    annotations = _without_ours(home.get("annotations") or {})
    annotations.pop(LAST_APPLIED, None)
    annotations |= {
        VIRTUAL_NODE: context.node.name,
        HOME_NAMESPACE: home["namespace"],
        HOME_NAME: home["name"],
    }
    metadata: KubeObject = {
        "name": home["name"],
        "namespace": context.remote_namespace,
        "labels": labels,
        "annotations": annotations,
    }
    if context.anchor is not None:
        metadata["ownerReferences"] = [context.anchor]
    return metadata


def _without_ours(pairs: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in pairs.items() if not key.startswith(PREFIX)}


def _translate_spec(
    metadata: KubeObject, spec: KubeObject, context: TranslationContext
) -> KubeObject:
    rebuilt = {"nodeSelector", "affinity", "tolerations", *REMOVED_FIELDS}
    remote = {key: value for key, value in spec.items() if key not in rebuilt}
    remote |= confine_pod(spec, context.node, context.selection)
    tolerations = translate_tolerations(spec.get("tolerations") or [], context.accepted_taints)
    if tolerations:
        remote["tolerations"] = tolerations
    remote["automountServiceAccountToken"] = False
    facts = HomeFacts(
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        node_name=context.node.name,
        service_account_name=spec.get("serviceAccountName") or "default",
    )
    volumes: list[KubeObject] = spec.get("volumes") or []
    lost = {volume.get("name") for volume in volumes if is_token_volume(volume)}
    kept = [rewrite_volume(volume) for volume in volumes if volume.get("name") not in lost]
    if kept:
        remote["volumes"] = kept
    else:
        remote.pop("volumes", None)
    for key in ("initContainers", "containers"):
        if spec.get(key):
            remote[key] = [_translate_container(item, facts, lost) for item in spec[key]]
    return remote


def _translate_container(
    container: KubeObject, facts: HomeFacts, lost_volumes: set[Any]
) -> KubeObject:
    translated = dict(container)
    if container.get("volumeMounts"):
        mounts = [
            item for item in container["volumeMounts"] if item.get("name") not in lost_volumes
        ]
        if mounts:
            translated["volumeMounts"] = mounts
        else:
            del translated["volumeMounts"]
    if container.get("env"):
        translated["env"] = [rewrite_variable(variable, facts) for variable in container["env"]]
    return translated


def _find_warnings(spec: KubeObject, context: TranslationContext) -> Iterator[str]:
    for name in REMOVED_FIELDS:
        rule = POD_SPEC_FIELDS[name]
        if name in spec and rule.is_missed(spec[name]):
            yield f"{name} {_describe(spec[name])} doesn't travel: {rule.why}"
    for volume in spec.get("volumes") or []:
        if is_token_volume(volume) and not is_injected(volume):
            yield (
                f"volume {volume.get('name', '')!r} doesn't travel: it holds a service-account"
                " token, and --api-access is none"
            )
    lost = describe_lost_tolerations(spec.get("tolerations") or [], context.accepted_taints)
    if lost:
        yield f"tolerations {', '.join(lost)} don't travel: --tolerate doesn't cover them"
    for constraint in spec.get("topologySpreadConstraints") or []:
        if _may_block(constraint):
            yield (
                f"topologySpreadConstraint on {constraint.get('topologyKey', '')} travels, but with"
                " minDomains or nodeAffinityPolicy Ignore it may keep the pod from every node"
                " behind the virtual node"
            )


def _may_block(constraint: KubeObject) -> bool:
    """Whether a hard constraint counts domains that the selection leaves out."""
    return constraint.get("whenUnsatisfiable") == "DoNotSchedule" and (
        (constraint.get("minDomains") or 1) > 1 or constraint.get("nodeAffinityPolicy") == "Ignore"
    )


def _describe(value: object) -> str:
    """Name a removed value in a sentence."""
    if isinstance(value, list):
        names = (item.get("name", "") if isinstance(item, dict) else str(item) for item in value)
        return ", ".join(names)
    return str(value)
