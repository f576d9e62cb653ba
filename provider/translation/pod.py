"""Home pod to remote pod."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from provider.labels import (
    DEPENDENTS,
    HOME_CLUSTER,
    HOME_GENERATION,
    HOME_NAME,
    HOME_NAMESPACE,
    HOME_POD_UID,
    LAST_APPLIED,
    PEERING,
    PREFIX,
    TOPOLOGY_LABELS,
    VIRTUAL_NODE,
    make_label_value,
)
from provider.taints import AcceptedTaint
from provider.translation.affinity import VirtualNodeView, confine_pod
from provider.translation.changes import note_applied
from provider.translation.dependents import DependentNames, find_dependents, write_dependents
from provider.translation.downward import HomeFacts, rewrite_variable, rewrite_volume
from provider.translation.fields import POD_SPEC_FIELDS, REMOVED_FIELDS
from provider.translation.host_access import find_container_host_access
from provider.translation.neighbours import Neighbourhood, translate_neighbours
from provider.translation.refusals import check_can_travel
from provider.translation.renaming import (
    rename_in_container,
    rename_in_volume,
    rename_pull_secrets,
)
from provider.translation.selection import Selection
from provider.translation.tokens import (
    ApiAccess,
    deliver_tokens,
    is_injected,
    is_token_volume,
    travelling_volumes,
)
from provider.translation.tolerations import describe_lost_tolerations, translate_tolerations
from vkubelet.kube.objects import KubeObject

SERVICE_ACCOUNT_FIELDS = frozenset({"serviceAccountName", "serviceAccount"})


@dataclass(frozen=True, slots=True)
class ApiServerAddress:
    """Where home's API server is found from the remote cluster."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


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
        api_access: Which API server the pod can reach.
        home_api_server: Where home's is; with `home` access.
        name_namespace: Names the remote namespace of a home namespace.
    """

    home_cluster_uid: str
    peering: str
    remote_namespace: str
    node: VirtualNodeView
    selection: Selection
    accepted_taints: tuple[AcceptedTaint, ...] = ()
    anchor: KubeObject | None = None
    allow_host_access: bool = False
    api_access: ApiAccess = ApiAccess.NONE
    home_api_server: ApiServerAddress | None = None
    name_namespace: Callable[[str], str] = str

    def neighbourhood(self, metadata: KubeObject) -> Neighbourhood:
        """Return where a home pod meets others."""
        return Neighbourhood(
            home_cluster_uid=self.home_cluster_uid,
            topology_keys=self.node.topology_keys,
            name_namespace=self.name_namespace,
            namespace=metadata["namespace"],
            labels=metadata.get("labels") or {},
        )

    def names(self, namespace: str) -> DependentNames:
        """Return the names of copies of what is in a home namespace."""
        return DependentNames(self.home_cluster_uid, self.peering, namespace)


@dataclass(frozen=True, slots=True)
class TranslatedPod:
    """
    A remote pod.

    Attributes:
        pod: As it is to be created; its metadata is the caller's own, deeper parts are shared with
            the home pod and must not be changed.
        warnings: What doesn't travel, a sentence each.
        ephemeral_containers: Those that it's to have; they can't be there at creation.
    """

    pod: KubeObject
    warnings: tuple[str, ...] = field(default=())
    ephemeral_containers: tuple[KubeObject, ...] = field(default=())


def translate_pod(pod: KubeObject, context: TranslationContext) -> TranslatedPod:
    """
    Make the remote pod of a home pod; the home pod isn't changed.

    Raises:
        RefusedError: If it can't run behind the virtual node as it is.
    """
    spec: KubeObject = pod["spec"]
    check_can_travel(spec, allow_host_access=context.allow_host_access)
    remote_spec, apart = _translate_spec(pod["metadata"], spec, context)
    remote = {key: value for key, value in pod.items() if key != "status"}
    remote |= {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _build_metadata(pod["metadata"], spec, context),
        "spec": remote_spec,
    }
    note_applied(remote)
    ephemeral, refused = _translate_ephemeral(pod, context)
    return TranslatedPod(remote, (*_find_warnings(spec, context), *apart, *refused), ephemeral)


def _translate_ephemeral(
    pod: KubeObject, context: TranslationContext
) -> tuple[tuple[KubeObject, ...], list[str]]:
    """Translate ephemeral containers that haven't ended yet; a sentence for each that can't run."""
    spec: KubeObject = pod["spec"]
    containers: list[KubeObject] = spec.get("ephemeralContainers") or []
    if not containers:
        return (), []
    ended = {
        status["name"]
        for status in (pod.get("status") or {}).get("ephemeralContainerStatuses") or ()
        if "terminated" in (status.get("state") or {})
    }
    translate = ContainerTranslation(pod["metadata"], spec, context)
    translated, refused = [], []
    for container in containers:
        wishes = [] if context.allow_host_access else [*find_container_host_access(container)]
        if wishes:
            refused.append(f"{'; '.join(wishes)}: it isn't started, host access isn't allowed")
        elif container["name"] not in ended:
            translated.append(translate(container))
    return tuple(translated), refused


def _build_metadata(home: KubeObject, spec: KubeObject, context: TranslationContext) -> KubeObject:
    """
    Build the metadata; only what is named here travels.

    Owners and finalizers of home mean nothing there: they would get the pod collected, or keep it.
    """
    labels = _without_ours(home.get("labels") or {})
    for key in TOPOLOGY_LABELS:  # where the virtual node is; the API server over there puts its own
        if key in labels and labels[key] == context.node.labels.get(key):
            del labels[key]
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
    if home.get("generation"):
        annotations[HOME_GENERATION] = str(home["generation"])
    dependents = find_dependents(spec, context.api_access)
    if dependents:
        annotations[DEPENDENTS] = write_dependents(dependents)
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
) -> tuple[KubeObject, list[str]]:
    """Translate the spec; with a sentence for each thing about other pods that doesn't travel."""
    removed = set(REMOVED_FIELDS)
    if context.api_access is ApiAccess.REMOTE:
        removed -= SERVICE_ACCOUNT_FIELDS
    rebuilt = {
        "nodeSelector",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
        *removed,
    }
    remote = {key: value for key, value in spec.items() if key not in rebuilt}
    remote |= confine_pod(spec, context.node, context.selection)
    hood = context.neighbourhood(metadata)
    neighbours, apart = translate_neighbours(spec, remote["affinity"], hood)
    remote |= neighbours
    remote["enableServiceLinks"] = False
    tolerations = translate_tolerations(spec.get("tolerations") or [], context.accepted_taints)
    if tolerations:
        remote["tolerations"] = tolerations
    if context.api_access is not ApiAccess.REMOTE:
        remote["automountServiceAccountToken"] = False
    names = context.names(metadata["namespace"])
    kept = travelling_volumes(spec, context.api_access)
    if kept:
        remote["volumes"] = [_translate_volume(item, metadata, names, context) for item in kept]
    if spec.get("imagePullSecrets"):
        remote["imagePullSecrets"] = rename_pull_secrets(spec["imagePullSecrets"], names)
    translate = ContainerTranslation(metadata, spec, context)
    for key in ("initContainers", "containers"):
        if spec.get(key):
            remote[key] = [translate(item) for item in spec[key]]
    return remote, apart


def _translate_volume(
    volume: KubeObject, metadata: KubeObject, names: DependentNames, context: TranslationContext
) -> KubeObject:
    translated = rename_in_volume(rewrite_volume(volume), names, context.api_access)
    if context.api_access is ApiAccess.HOME:
        translated = deliver_tokens(
            translated, lambda name, index: names.token(metadata["uid"], name, index)
        )
    return translated


class ContainerTranslation:
    """Translates containers of one pod, of every kind."""

    def __init__(self, metadata: KubeObject, spec: KubeObject, context: TranslationContext) -> None:
        self._facts = HomeFacts(
            namespace=metadata["namespace"],
            uid=metadata["uid"],
            node_name=context.node.name,
            service_account_name=spec.get("serviceAccountName") or "default",
        )
        self._names = context.names(metadata["namespace"])
        travelling = travelling_volumes(spec, context.api_access)
        kept = {volume.get("name") for volume in travelling}
        self._lost = {item.get("name") for item in spec.get("volumes") or []} - kept
        server = context.home_api_server if context.api_access is ApiAccess.HOME else None
        self._server: list[KubeObject] = (
            []
            if server is None
            else [
                {"name": "KUBERNETES_SERVICE_HOST", "value": server.host},
                {"name": "KUBERNETES_SERVICE_PORT", "value": str(server.port)},
            ]
        )

    def __call__(self, container: KubeObject) -> KubeObject:
        """Translate a container; it isn't changed."""
        translated = rename_in_container(container, self._names)
        if container.get("volumeMounts"):
            mounts = [
                item for item in container["volumeMounts"] if item.get("name") not in self._lost
            ]
            if mounts:
                translated["volumeMounts"] = mounts
            else:
                del translated["volumeMounts"]
        own: list[KubeObject] = translated.get("env") or []
        present = {variable.get("name") for variable in own}
        env = [item for item in self._server if item["name"] not in present] + [
            rewrite_variable(variable, self._facts) for variable in own
        ]
        if env:
            translated["env"] = env
        return translated


def _find_warnings(spec: KubeObject, context: TranslationContext) -> Iterator[str]:
    has_account = context.api_access is not ApiAccess.NONE
    for name in REMOVED_FIELDS:
        rule = POD_SPEC_FIELDS[name]
        if name in SERVICE_ACCOUNT_FIELDS and has_account:
            continue
        if name in spec and rule.is_missed(spec[name]):
            yield f"{name} {_describe(spec[name])} doesn't travel: {rule.why}"
    if not has_account:
        yield from _find_lost_tokens(spec)
    lost = describe_lost_tolerations(spec.get("tolerations") or [], context.accepted_taints)
    if lost:
        yield f"tolerations {', '.join(lost)} don't travel: --tolerate doesn't cover them"
    for constraint in spec.get("topologySpreadConstraints") or []:
        if constraint.get("topologyKey") in context.node.topology_keys and _may_block(constraint):
            yield (
                f"topologySpreadConstraint on {constraint.get('topologyKey', '')} travels, but with"
                " minDomains or nodeAffinityPolicy Ignore it may keep the pod from every node"
                " behind the virtual node"
            )


def _find_lost_tokens(spec: KubeObject) -> Iterator[str]:
    kept = {volume.get("name") for volume in travelling_volumes(spec, ApiAccess.NONE)}
    for volume in spec.get("volumes") or []:
        if is_token_volume(volume) and not is_injected(volume):
            name = volume.get("name", "")
            if name in kept:
                how = "travels without its service-account token:"
            else:
                how = "doesn't travel: it holds a service-account token, and"
            yield f"volume {name!r} {how} --api-access is none"


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
