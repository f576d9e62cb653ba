"""
What the API accepts as names, label keys and label values.

Source: apimachinery pkg/api/validate/content.
"""

import re

_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL.pattern}(?:\.{_DNS_LABEL.pattern})*")
_NAME_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")

MAX_DNS_LABEL = 63
MAX_DNS_SUBDOMAIN = 253
MAX_LABEL_VALUE = 63


def is_dns_label(text: str) -> bool:
    """Whether the text is a DNS-1123 label, as the names of namespaces are."""
    return len(text) <= MAX_DNS_LABEL and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Whether the text is a DNS-1123 subdomain, as the names of nodes and pods are."""
    return len(text) <= MAX_DNS_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Whether the text can be the key of a label, annotation or taint: [prefix/]name."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= MAX_LABEL_VALUE and _NAME_PART.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Whether the text can be the value of a label or taint; empty is valid."""
    return len(text) <= MAX_LABEL_VALUE and (not text or _NAME_PART.fullmatch(text) is not None)
