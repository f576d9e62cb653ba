"""
Tolerations that travel.

A toleration is a way out of the selection: a pod with a keyless `Exists` would be bound to a
tainted control plane. So a pod keeps only what `--tolerate` covers, and for how long it stays on
a node that is not ready or unreachable; of wider tolerations just that part travels.
"""

from collections.abc import Iterable, Sequence

from provider.labels import NOT_READY, PREFIX, UNREACHABLE, VIRTUAL_KUBELET_PREFIX
from provider.taints import AcceptedTaint
from vkubelet.kube.objects import KubeObject


def translate_tolerations(
    tolerations: Sequence[KubeObject], accepted: Sequence[AcceptedTaint]
) -> list[KubeObject]:
    """Return the remote pod's tolerations: the pod's own that may travel, then the accepted."""
    kept: list[KubeObject] = []
    for toleration in tolerations:
        if _is_covered(toleration, accepted):
            _add(kept, [dict(toleration)])
        else:
            _add(kept, _lifecycle_part(toleration))
    _add(kept, [taint.build_toleration() for taint in accepted])
    return kept


def describe_lost_tolerations(
    tolerations: Sequence[KubeObject], accepted: Sequence[AcceptedTaint]
) -> list[str]:
    """
    Name the tolerations that don't travel.

    Those for taints of virtual nodes are left out: they have done their work at home.
    """
    return [
        _describe(toleration)
        for toleration in tolerations
        if not _is_covered(toleration, accepted)
        and not (_key(toleration) and _lifecycle_part(toleration))
        and not _key(toleration).startswith((PREFIX, VIRTUAL_KUBELET_PREFIX))
    ]


def _is_covered(toleration: KubeObject, accepted: Iterable[AcceptedTaint]) -> bool:
    return any(taint.covers(toleration) for taint in accepted)


def _lifecycle_part(toleration: KubeObject) -> list[KubeObject]:
    """Return what a toleration says about NoExecute of not-ready and unreachable."""
    exists = toleration.get("operator") == "Exists"
    if toleration.get("effect") not in (None, "", "NoExecute"):
        return []
    if not exists and (toleration.get("operator") not in (None, "", "Equal") or _value(toleration)):
        return []  # these taints have no value
    key = _key(toleration)
    keys = (NOT_READY, UNREACHABLE) if not key and exists else (key,)
    part = {"operator": "Exists", "effect": "NoExecute"}
    if "tolerationSeconds" in toleration:
        part["tolerationSeconds"] = toleration["tolerationSeconds"]
    return [{"key": name, **part} for name in keys if name in (NOT_READY, UNREACHABLE)]


def _add(kept: list[KubeObject], more: Iterable[KubeObject]) -> None:
    """Append what isn't there; of entries that differ only in tolerationSeconds the shortest."""
    for toleration in more:
        same = next(
            (at for at, known in enumerate(kept) if _identity(known) == _identity(toleration)), None
        )
        if same is None:
            kept.append(toleration)
        elif _seconds(toleration) < _seconds(kept[same]):
            kept[same] = toleration


def _identity(toleration: KubeObject) -> tuple[str, str, str, str]:
    operator = toleration.get("operator") or "Equal"
    return _key(toleration), operator, _value(toleration), toleration.get("effect") or ""


def _seconds(toleration: KubeObject) -> float:
    """Return how long it tolerates; absent is for ever."""
    seconds = toleration.get("tolerationSeconds")
    return float("inf") if seconds is None else float(seconds)


def _key(toleration: KubeObject) -> str:
    return toleration.get("key") or ""


def _value(toleration: KubeObject) -> str:
    return toleration.get("value") or ""


def _describe(toleration: KubeObject) -> str:
    pair = _key(toleration) or "(every key)"
    if _value(toleration):
        pair = f"{pair}={_value(toleration)}"
    effect = toleration.get("effect")
    return f"{pair}:{effect}" if effect else pair
