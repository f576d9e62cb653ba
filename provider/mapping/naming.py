"""Names of virtual nodes: valid, unique and the same at every start."""

import re
from dataclasses import dataclass

from provider.labels import make_hash
from provider.mapping.errors import MappingError
from vkubelet.kube.names import MAX_DNS_SUBDOMAIN, is_dns_subdomain

_INVALID = re.compile(r"[^a-z0-9.-]")


@dataclass(frozen=True, slots=True)
class NodeNaming:
    """
    How a name is made of a label value or a physical node's name.

    Attributes:
        prefix: Put in front; "" for exact names.
    """

    prefix: str = ""

    def __post_init__(self) -> None:
        if self.prefix and not is_dns_subdomain(f"{self.prefix}x"):
            raise MappingError(
                f"{self.prefix!r} can't begin the name of a node"
                " (a-z, 0-9, '-' and '.', beginning with a letter or digit, at most 252)"
            )

    def build_name(self, text: str) -> str:
        """
        Return a valid name for the text.

        What isn't allowed in a name becomes a dash; what is too long is cut and gets a hash.
        """
        return fit_name(f"{self.prefix}{text}")


def fit_name(text: str) -> str:
    """Return the text as a DNS subdomain; one that is valid stays as it is."""
    if is_dns_subdomain(text):
        return text
    cleaned = _tidy(_INVALID.sub("-", text.lower()))
    if is_dns_subdomain(cleaned):
        return cleaned
    suffix = make_hash(text)
    head = _tidy(cleaned[: MAX_DNS_SUBDOMAIN - len(suffix) - 1])
    return f"{head}-{suffix}" if head else suffix


def _tidy(text: str) -> str:
    """Let every part between dots begin and end with a letter or digit."""
    parts = (part.strip("-") for part in text.split("."))
    return ".".join(part for part in parts if part)
