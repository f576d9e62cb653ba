"""Volumes that hold tokens for the home API server: under `--api-access none` they don't travel."""

from collections.abc import Iterator

from provider.translation.references import CONFIG_MAP, Reference, find_volume_references
from vkubelet.kube.objects import KubeObject

_INJECTED_PREFIX = "kube-api-access-"
"""Admission adds such a volume to every pod; nobody asked for it."""

_ROOT_CERTIFICATE = "kube-root-ca.crt"
"""It verifies the server that the token is for, and goes with it."""


def is_token_volume(volume: KubeObject) -> bool:
    """Whether a token for the API server is projected into the volume."""
    sources = (volume.get("projected") or {}).get("sources") or []
    return any(source.get("serviceAccountToken") is not None for source in sources)


def is_injected(volume: KubeObject) -> bool:
    """Whether the API server added the token volume itself."""
    return str(volume.get("name", "")).startswith(_INJECTED_PREFIX)


def find_other_references(volume: KubeObject) -> Iterator[Reference]:
    """Yield what a token volume uses beside the token and what goes with it."""
    for reference in find_volume_references(volume):
        if (reference.kind, reference.name) != (CONFIG_MAP, _ROOT_CERTIFICATE):
            yield reference
