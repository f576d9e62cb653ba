"""
What becomes of each field of a pod: the tables that the code obeys and the documents show.

A field that isn't named here travels as it is, so that what is newer than this code survives; a
test tells of fields that a new version of Kubernetes has and neither these tables nor those of
`nested_fields` have.
"""

import enum
from dataclasses import dataclass


class Treatment(enum.StrEnum):
    """What becomes of a field."""

    TRAVELS = "travels"
    REWRITTEN = "rewritten"
    REMOVED = "removed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FieldRule:
    """
    The rule for a field.

    Attributes:
        treatment: What becomes of it.
        why: The reason, or how it's rewritten.
        warns: Whether a value that is removed is told to the user; not what no user asked for.
        default: A value that goes without saying.
    """

    treatment: Treatment
    why: str
    warns: bool = False
    default: str = ""

    def is_missed(self, value: object) -> bool:
        """Whether the user is told that this value doesn't travel."""
        return self.warns and bool(value) and value != self.default


_AS_IT_IS = FieldRule(Treatment.TRAVELS, "as it is")
_HOST_ACCESS = FieldRule(Treatment.REFUSED, "host access, unless --allow-host-access")


def travelling(names: str) -> dict[str, FieldRule]:
    """Return the rules of fields, a word each, that travel as they are."""
    return dict.fromkeys(names.split(), _AS_IT_IS)


POD_SPEC_FIELDS: dict[str, FieldRule] = {
    **travelling(
        "activeDeadlineSeconds dnsConfig dnsPolicy hostAliases hostUsers hostname hostnameOverride"
        " os resources restartPolicy shareProcessNamespace subdomain terminationGracePeriodSeconds"
    ),
    "setHostnameAsFQDN": FieldRule(
        Treatment.TRAVELS, "the name is made of the remote namespace and cluster domain"
    ),
    "nodeName": FieldRule(Treatment.REMOVED, "the remote scheduler chooses"),
    "nodeSelector": FieldRule(
        Treatment.REWRITTEN, "what speaks of virtual nodes is decided at home"
    ),
    "affinity": FieldRule(
        Treatment.REWRITTEN,
        "the selection of the virtual node is AND-ed to every required term; pod (anti-)affinity is"
        " kept among pods of this home cluster, where physical nodes have the topology key",
    ),
    "tolerations": FieldRule(
        Treatment.REWRITTEN, "only what --tolerate covers, and NoExecute not-ready, unreachable"
    ),
    "containers": FieldRule(
        Treatment.REWRITTEN,
        "environment from the copies of ConfigMaps and Secrets, fieldRefs show what home shows,"
        " tokens by --api-access",
    ),
    "initContainers": FieldRule(Treatment.REWRITTEN, "as containers"),
    "volumes": FieldRule(
        Treatment.REWRITTEN,
        "they refer to the copies of ConfigMaps and Secrets, fieldRefs show what home shows, tokens"
        " by --api-access; claims are refused",
    ),
    "automountServiceAccountToken": FieldRule(
        Treatment.REWRITTEN, "false, but with --api-access remote"
    ),
    "ephemeralContainers": FieldRule(
        Treatment.REMOVED, "can't be there at creation; added to the running pod"
    ),
    "serviceAccountName": FieldRule(
        Treatment.REMOVED, "--api-access is none", warns=True, default="default"
    ),
    "serviceAccount": FieldRule(Treatment.REMOVED, "the old name of serviceAccountName"),
    "imagePullSecrets": FieldRule(Treatment.REWRITTEN, "the copies"),
    "schedulerName": FieldRule(
        Treatment.REMOVED,
        "schedulers of home aren't known to the remote cluster",
        warns=True,
        default="default-scheduler",
    ),
    "priority": FieldRule(Treatment.REMOVED, "goes with priorityClassName"),
    "priorityClassName": FieldRule(
        Treatment.REMOVED, "priority classes of home aren't known to the remote cluster", warns=True
    ),
    "preemptionPolicy": FieldRule(Treatment.REMOVED, "goes with priorityClassName"),
    "overhead": FieldRule(Treatment.REMOVED, "the remote RuntimeClass sets its own"),
    "readinessGates": FieldRule(Treatment.REMOVED, "evaluated at home"),
    "schedulingGates": FieldRule(Treatment.REMOVED, "a pod that is bound has none"),
    "schedulingGroup": FieldRule(
        Treatment.REMOVED, "names an object of the home namespace, which doesn't cross", warns=True
    ),
    "evictionResponders": FieldRule(Treatment.REMOVED, "evictions are asked for at home"),
    "runtimeClassName": FieldRule(
        Treatment.REFUSED, "RuntimeClasses of home aren't known to the remote cluster"
    ),
    "resourceClaims": FieldRule(Treatment.REFUSED, "ResourceClaims don't cross"),
    "hostNetwork": _HOST_ACCESS,
    "hostPID": _HOST_ACCESS,
    "hostIPC": _HOST_ACCESS,
    "securityContext": FieldRule(Treatment.TRAVELS, "see there; Pod Security applies over there"),
    "enableServiceLinks": FieldRule(
        Treatment.REWRITTEN, "false: Services don't cross, those over there aren't the pod's"
    ),
    "topologySpreadConstraints": FieldRule(
        Treatment.REWRITTEN,
        "kept among pods of this home cluster, where physical nodes have the topology key; counted"
        " over the nodes of the selection (nodeAffinityPolicy Honor)",
    ),
}
"""Fields of `spec`."""

_REQUESTS = FieldRule(Treatment.TRAVELS, "a host to ask is host access, and refused as such")

CONTAINER_FIELDS: dict[str, FieldRule] = {
    **travelling(
        "args command imagePullPolicy name resizePolicy restartPolicy restartPolicyRules stdin"
        " stdinOnce targetContainerName terminationMessagePath terminationMessagePolicy tty"
        " volumeDevices workingDir"
    ),
    **dict.fromkeys(("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"), _REQUESTS),
    "image": FieldRule(Treatment.TRAVELS, "also when it changes later"),
    "resources": FieldRule(
        Treatment.TRAVELS, "also when they change later; claims are refused with the pod's"
    ),
    "env": FieldRule(
        Treatment.REWRITTEN,
        "references name the copies; fieldRefs to namespace, UID, nodeName and serviceAccountName"
        " become home's values; with --api-access home the address of home's API server",
    ),
    "envFrom": FieldRule(Treatment.REWRITTEN, "references name the copies"),
    "ports": FieldRule(Treatment.TRAVELS, "a hostPort is host access, and refused as such"),
    "securityContext": FieldRule(Treatment.TRAVELS, "see there; Pod Security applies over there"),
    "volumeMounts": FieldRule(Treatment.REWRITTEN, "those of volumes that are left out go, too"),
}
"""Fields of containers, init containers and ephemeral containers."""

SECURITY_CONTEXT_FIELDS: dict[str, FieldRule] = {
    **travelling(
        "allowPrivilegeEscalation appArmorProfile fsGroup fsGroupChangePolicy procMount"
        " readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy"
        " seLinuxOptions seccompProfile supplementalGroups supplementalGroupsPolicy sysctls"
    ),
    "capabilities": FieldRule(
        Treatment.TRAVELS, "those beyond Pod Security's baseline are host access, refused as such"
    ),
    "privileged": _HOST_ACCESS,
    "windowsOptions": FieldRule(
        Treatment.TRAVELS, "hostProcess is host access, and refused as such"
    ),
}
"""Fields of the securityContext of pods and containers."""

_DRIVER = FieldRule(
    Treatment.REWRITTEN, "a Secret that it names becomes the copy; the driver has to be over there"
)

VOLUME_FIELDS: dict[str, FieldRule] = {
    **travelling(
        "awsElasticBlockStore azureDisk emptyDir fc flocker gcePersistentDisk gitRepo image"
        " name nfs photonPersistentDisk portworxVolume quobyte vsphereVolume"
    ),
    **dict.fromkeys(
        ("azureFile", "cephfs", "cinder", "csi", "flexVolume", "iscsi", "rbd", "scaleIO"), _DRIVER
    ),
    "storageos": _DRIVER,
    "glusterfs": FieldRule(Treatment.TRAVELS, "the Endpoints that it names have to be over there"),
    "configMap": FieldRule(Treatment.REWRITTEN, "names the copy"),
    "secret": FieldRule(Treatment.REWRITTEN, "names the copy"),
    "downwardAPI": FieldRule(Treatment.REWRITTEN, "namespace and UID are home's"),
    "projected": FieldRule(Treatment.REWRITTEN, "see there"),
    "hostPath": _HOST_ACCESS,
    "persistentVolumeClaim": FieldRule(Treatment.REFUSED, "claims don't cross"),
    "ephemeral": FieldRule(Treatment.REFUSED, "claims don't cross"),
}
"""Fields of volumes."""

PROJECTION_FIELDS: dict[str, FieldRule] = {
    "configMap": FieldRule(Treatment.REWRITTEN, "names the copy"),
    "secret": FieldRule(Treatment.REWRITTEN, "names the copy"),
    "downwardAPI": FieldRule(Treatment.REWRITTEN, "namespace and UID are home's"),
    "serviceAccountToken": FieldRule(
        Treatment.REWRITTEN, "by --api-access: left out, delivered in a Secret, or the remote's"
    ),
    "clusterTrustBundle": FieldRule(Treatment.REFUSED, "ClusterTrustBundles don't cross"),
    "podCertificate": FieldRule(Treatment.REFUSED, "certificates of home's signers don't cross"),
}
"""Sources of projected volumes."""

ENV_SOURCE_FIELDS: dict[str, FieldRule] = {
    "configMapKeyRef": FieldRule(Treatment.REWRITTEN, "names the copy"),
    "secretKeyRef": FieldRule(Treatment.REWRITTEN, "names the copy"),
    "fieldRef": FieldRule(
        Treatment.REWRITTEN, "home's value; hostIP, podIP and the like are the remote kubelet's"
    ),
    "fileKeyRef": _AS_IT_IS,
    "resourceFieldRef": _AS_IT_IS,
}
"""Where a variable's value comes from."""

_KINDRED = FieldRule(
    Treatment.REWRITTEN, "says also that pods are of this home cluster, and what label keys mean"
)
_LABEL_KEYS = FieldRule(Treatment.REWRITTEN, "written into the labelSelector")
_TOPOLOGY_KEY = FieldRule(
    Treatment.TRAVELS, "what is on one that no physical node has is left out, with a warning"
)

AFFINITY_TERM_FIELDS: dict[str, FieldRule] = {
    "labelSelector": _KINDRED,
    "matchLabelKeys": _LABEL_KEYS,
    "mismatchLabelKeys": _LABEL_KEYS,
    "namespaces": FieldRule(Treatment.REWRITTEN, "the remote namespaces"),
    "namespaceSelector": FieldRule(
        Treatment.REWRITTEN,
        "{} travels, names become namespaces; a term with other labels of home's namespaces is left"
        " out, with a warning",
    ),
    "topologyKey": _TOPOLOGY_KEY,
}
"""Fields of the terms of pod (anti-)affinity."""

SPREAD_FIELDS: dict[str, FieldRule] = {
    **travelling("maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy whenUnsatisfiable"),
    "labelSelector": _KINDRED,
    "matchLabelKeys": _LABEL_KEYS,
    "topologyKey": _TOPOLOGY_KEY,
}
"""Fields of topology spread constraints."""

FIELDS_BY_TYPE: dict[str, dict[str, FieldRule]] = {
    "PodSpec": POD_SPEC_FIELDS,
    "Container": CONTAINER_FIELDS,
    "EphemeralContainer": CONTAINER_FIELDS,
    "PodSecurityContext": SECURITY_CONTEXT_FIELDS,
    "SecurityContext": SECURITY_CONTEXT_FIELDS,
    "Volume": VOLUME_FIELDS,
    "VolumeProjection": PROJECTION_FIELDS,
    "EnvVarSource": ENV_SOURCE_FIELDS,
    "PodAffinityTerm": AFFINITY_TERM_FIELDS,
    "TopologySpreadConstraint": SPREAD_FIELDS,
}
"""The tables by the name that Kubernetes' API has for what they are about."""

HOST_ACCESS_FIELDS = ("hostNetwork", "hostPID", "hostIPC")

REMOVED_FIELDS = tuple(
    name for name, rule in POD_SPEC_FIELDS.items() if rule.treatment is Treatment.REMOVED
)
