"""Physical taints that are acceptable (`--tolerate`), and the tolerations that follow from them."""

from dataclasses import dataclass
from typing import Any

from vkubelet.kube.names import is_label_key, is_label_value
from vkubelet.kube.objects import KubeObject

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class NodeTaint:
    """A taint of a physical node."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        pair = f"{self.key}={self.value}" if self.value else self.key
        return f"{pair}:{self.effect}"


@dataclass(frozen=True, slots=True)
class AcceptedTaint:
    """
    A taint that physical nodes may have.

    Attributes:
        key: The taint's key.
        value: The only value that is acceptable, None for all.
        effect: The only effect that is acceptable, None for all.
    """

    key: str
    value: str | None = None
    effect: str | None = None

    def accepts(self, taint: NodeTaint) -> bool:
        """Whether it's this taint."""
        return (
            taint.key == self.key
            and self.value in (None, taint.value)
            and self.effect in (None, taint.effect)
        )

    def covers(self, toleration: KubeObject) -> bool:
        """Whether every taint that the pod's toleration tolerates is acceptable."""
        if toleration.get("key") != self.key:
            return False
        if self.effect is not None and toleration.get("effect") != self.effect:
            return False
        if self.value is None:
            return True
        is_equal = toleration.get("operator") in (None, "", "Equal")
        return is_equal and (toleration.get("value") or "") == self.value

    def build_toleration(self) -> KubeObject:
        """Build the toleration that a reflected pod gets."""
        toleration: dict[str, Any] = {"key": self.key}
        if self.value is None:
            toleration["operator"] = "Exists"
        else:
            toleration |= {"operator": "Equal", "value": self.value}
        if self.effect is not None:
            toleration["effect"] = self.effect
        return toleration

    def __str__(self) -> str:
        text = self.key if self.value is None else f"{self.key}={self.value}"
        return text if self.effect is None else f"{text}:{self.effect}"


def parse_accepted_taint(text: str) -> AcceptedTaint:
    """
    Parse KEY[=VALUE][:EFFECT].

    Raises:
        ValueError: Names the text and what is wrong with it.
    """
    pair, colon, effect = text.partition(":")
    key, equals, value = pair.partition("=")
    if not is_label_key(key):
        raise ValueError(f"{text!r} is not KEY[=VALUE][:EFFECT]: {key!r} is not a taint key")
    if not is_label_value(value):
        raise ValueError(f"{text!r} is not KEY[=VALUE][:EFFECT]: {value!r} is not a taint value")
    if colon and effect not in EFFECTS:
        raise ValueError(
            f"{text!r} is not KEY[=VALUE][:EFFECT]: {effect!r} is none of {', '.join(EFFECTS)}"
        )
    return AcceptedTaint(key, value if equals else None, effect if colon else None)
