"""Restarts of lost remote pods, noted on the one that replaces them: a restart count only grows."""

from collections.abc import Mapping

import msgspec

from provider.labels import RESTARTS
from vkubelet.kube.objects import KubeObject
from vkubelet.pods.status import restart_counts


def note_restarts(remote_pod: KubeObject, home_pod: KubeObject) -> KubeObject:
    """
    Have a remote pod that is to be made tell what restarts its home pod shows; neither is changed.

    To be done at creation only: later the home pod's counts have those of this remote pod in them.
    """
    counts = restart_counts(home_pod.get("status") or {})
    if not any(counts.values()):
        return remote_pod
    metadata: KubeObject = remote_pod["metadata"]
    annotations = {**metadata["annotations"], RESTARTS: msgspec.json.encode(counts).decode()}
    return {**remote_pod, "metadata": {**metadata, "annotations": annotations}}


def read_restarts(metadata: KubeObject) -> Mapping[str, int]:
    """Read the note of a remote pod; empty if there is none that makes sense."""
    note = (metadata.get("annotations") or {}).get(RESTARTS)
    if note is None:
        return {}
    try:
        return msgspec.json.decode(note, type=dict[str, int])
    except msgspec.MsgspecError:
        return {}
