"""
What becomes of each field of a pod: the table that the code obeys and the documents show.

A field that isn't named here travels as it is, so that what is newer than this code survives.
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


POD_SPEC_FIELDS: dict[str, FieldRule] = {
    "nodeName": FieldRule(Treatment.REMOVED, "the remote scheduler chooses"),
    "nodeSelector": FieldRule(
        Treatment.REWRITTEN, "what speaks of virtual nodes is decided at home"
    ),
    "affinity": FieldRule(
        Treatment.REWRITTEN, "the selection of the virtual node is AND-ed to every required term"
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
    "hostNetwork": FieldRule(Treatment.REFUSED, "host access, unless --allow-host-access"),
    "hostPID": FieldRule(Treatment.REFUSED, "host access, unless --allow-host-access"),
    "hostIPC": FieldRule(Treatment.REFUSED, "host access, unless --allow-host-access"),
    "topologySpreadConstraints": FieldRule(
        Treatment.TRAVELS, "counted over the nodes of the selection (nodeAffinityPolicy Honor)"
    ),
}
"""Fields of `spec` that don't simply travel, and those whose travelling needs a word."""

HOST_ACCESS_FIELDS = ("hostNetwork", "hostPID", "hostIPC")

REMOVED_FIELDS = tuple(
    name for name, rule in POD_SPEC_FIELDS.items() if rule.treatment is Treatment.REMOVED
)
