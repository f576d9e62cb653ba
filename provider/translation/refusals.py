"""Why a pod can't run behind a virtual node as it is."""

from collections.abc import Iterator

from provider.translation.fields import POD_SPEC_FIELDS
from provider.translation.host_access import find_host_access
from provider.translation.references import CLAIM, CONFIG_MAP, SECRET, find_references
from vkubelet.errors import RefusedError
from vkubelet.kube.objects import KubeObject

REASON_HOST_ACCESS = "HostAccessNotAllowed"
REASON_CLAIMS = "VolumeClaimsNotReflected"
REASON_VOLUME = "VolumeNotReflected"
REASON_RUNTIME_CLASS = "RuntimeClassNotReflected"
REASON_RESOURCE_CLAIMS = "ResourceClaimsNotReflected"

_CROSSING = (CONFIG_MAP, SECRET)


def check_can_travel(spec: KubeObject, *, allow_host_access: bool) -> None:
    """
    Check that nothing in the spec is bound to the home cluster.

    Raises:
        RefusedError: With the first reason, and all that is wrong in the message.
    """
    problems = list(_find_problems(spec, allow_host_access=allow_host_access))
    if problems:
        texts = dict.fromkeys(text for _, text in problems)
        raise RefusedError(problems[0][0], "; ".join(texts))


def _find_problems(spec: KubeObject, *, allow_host_access: bool) -> Iterator[tuple[str, str]]:
    if not allow_host_access:
        for text in find_host_access(spec):
            yield REASON_HOST_ACCESS, f"{text}: host access isn't allowed"
    if spec.get("runtimeClassName"):
        why = POD_SPEC_FIELDS["runtimeClassName"].why
        yield REASON_RUNTIME_CLASS, f"runtimeClassName {spec['runtimeClassName']}: {why}"
    for claim in spec.get("resourceClaims") or []:
        why = POD_SPEC_FIELDS["resourceClaims"].why
        yield REASON_RESOURCE_CLAIMS, f"resource claim {claim.get('name', '')!r}: {why}"
    for reference in find_references(spec):
        if reference.kind not in _CROSSING:
            reason = REASON_CLAIMS if reference.kind == CLAIM else REASON_VOLUME
            yield reason, f"{reference}: {reference.kind}s don't cross to the remote cluster"
