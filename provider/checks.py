"""Checks of single values: each returns what is kept, or raises a ValueError that says why not."""

import ipaddress
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from string import Formatter

from provider.mapping.errors import MappingError
from provider.mapping.naming import NodeNaming
from provider.mapping.selector import parse_named_selector
from provider.taints import EFFECTS, parse_accepted_taint
from provider.translation.addresses import parse_cidr_remap
from provider.translation.pod import ApiServerAddress
from vkubelet.config import PortRange
from vkubelet.kube.names import is_dns_label, is_dns_subdomain, is_label_key, is_label_value
from vkubelet.kube.quantity import parse_quantity
from vkubelet.kube.selector import parse_selector

NAMESPACE_FIELDS = ("namespace", "home_cluster", "remote_cluster")
"""Fields of the template of `--remote-namespace`."""

_DURATION = re.compile(r"(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen on; an empty host means all of them."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class CapacityLimit:
    """The most that a virtual node offers of a resource."""

    resource: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time, as flags give it; infinite for `never`."""

    seconds: float

    @property
    def finite_seconds(self) -> float | None:
        """Its seconds; None for `never`."""
        return None if math.isinf(self.seconds) else self.seconds

    def __str__(self) -> str:
        if math.isinf(self.seconds):
            return "never"
        hours, rest = divmod(int(self.seconds), 3600)
        parts = zip((hours, rest // 60, rest % 60), "hms", strict=True)
        return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def check_dns_label(text: str) -> str:
    """Check the name of a namespace or cluster."""
    if not is_dns_label(text):
        raise ValueError(f"{text!r} is not a DNS label (a-z, 0-9 and inner '-', at most 63)")
    return text


def check_dns_subdomain(text: str) -> str:
    """Check the name of a node."""
    if not is_dns_subdomain(text):
        raise ValueError(f"{text!r} is not a valid name (a-z, 0-9, '-' and '.', at most 253)")
    return text


def check_namespace_name(text: str) -> str:
    """Check the name of a namespace, or '*'."""
    return text if text == "*" else check_dns_label(text)


def check_selector(text: str) -> str:
    """Check a label selector."""
    parse_selector(text)
    return text


def read_named_selector(value: object) -> object:
    """Read NAME=SELECTOR."""
    return parse_named_selector(value) if isinstance(value, str) else value


def check_name_prefix(text: str) -> str:
    """Check what names of nodes begin with."""
    if not text:
        raise ValueError("an empty prefix is --exact-node-names")
    try:
        return NodeNaming(text).prefix
    except MappingError as error:
        raise ValueError(str(error)) from error


def check_label_key(text: str) -> str:
    """Check the key of a label."""
    if not is_label_key(text):
        raise ValueError(f"{text!r} is not a label key")
    return text


def check_label_pattern(text: str) -> str:
    """Check a pattern of label keys: a key in which * and ? stand for any characters."""
    if not is_label_key(re.sub(r"[*?]", "x", text)):
        raise ValueError(f"{text!r} is not a label key with * or ? in it")
    return text


def check_label_pair(text: str) -> str:
    """Check KEY=VALUE of a label."""
    key, equals, value = text.partition("=")
    if not equals or not is_label_key(key) or not is_label_value(value):
        raise ValueError(f"{text!r} is not KEY=VALUE with a valid label key and value")
    return text


def check_annotation_pair(text: str) -> str:
    """Check KEY=VALUE of an annotation."""
    key, equals, _ = text.partition("=")
    if not equals or not is_label_key(key):
        raise ValueError(f"{text!r} is not KEY=VALUE with a valid annotation key")
    return text


def check_taint(text: str) -> str:
    """Check KEY[=VALUE]:EFFECT."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if effect not in EFFECTS or not is_label_key(key) or not is_label_value(value):
        raise ValueError(f"{text!r} is not KEY[=VALUE]:EFFECT with one of {', '.join(EFFECTS)}")
    return text


def read_accepted_taint(value: object) -> object:
    """Read KEY[=VALUE][:EFFECT]."""
    return parse_accepted_taint(value) if isinstance(value, str) else value


def read_capacity_limit(value: object) -> object:
    """Read RESOURCE=QUANTITY."""
    if not isinstance(value, str):
        return value
    resource, equals, quantity = value.partition("=")
    if not equals or not is_label_key(resource):
        raise ValueError(f"{value!r} is not RESOURCE=QUANTITY (such as cpu=8, nvidia.com/gpu=2)")
    amount = parse_quantity(quantity)
    if amount < 0:
        raise ValueError(f"{value!r}: a limit can't be negative")
    return CapacityLimit(resource, amount)


def parse_duration(text: str) -> Duration:
    """Parse 90s, 5m, 1h30m; a number alone is seconds."""
    match = _DURATION.fullmatch(f"{text}s" if text.isdecimal() else text)
    if match is None or not text:
        raise ValueError(f"{text!r} is not a duration (such as 90s, 5m, 1h30m)")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return Duration(hours * 3600 + minutes * 60 + seconds)


def read_duration(value: object) -> object:
    """Read a duration; in a file a plain number may stand for seconds."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return parse_duration(value) if isinstance(value, str) else value


def read_timeout(value: object) -> object:
    """Read a duration that isn't zero, or `never`."""
    if value == "never":
        return Duration(math.inf)
    duration = read_duration(value)
    if isinstance(duration, Duration) and duration.seconds <= 0:
        raise ValueError(f"{value!r} is no time-out: give a duration (such as 5m) or never")
    return duration


def read_cidr_remap(value: object) -> object:
    """Read FROM=TO."""
    return parse_cidr_remap(value) if isinstance(value, str) else value


def check_namespace_template(text: str) -> str:
    """Check the template of remote namespaces."""
    try:
        parsed = [part for part in Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise ValueError(f"{text!r} is not a template: {error}") from error
    if any(spec or conversion for _, _, spec, conversion in parsed):
        # {namespace:.5} would map many namespaces to one.
        raise ValueError(f"{text!r}: fields stand there as they are, without ':' or '!'")
    fields = [name for _, name, _, _ in parsed if name is not None]
    unknown = [name for name in fields if name not in NAMESPACE_FIELDS]
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in NAMESPACE_FIELDS)
        raise ValueError(f"{text!r} has the unknown field {{{unknown[0]}}}; known: {known}")
    check_dns_label(text.format(**dict.fromkeys(fields, "x")))
    return text


def read_port_range(value: object) -> object:
    """Read FROM-TO."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d{1,5})-(\d{1,5})", value)
    if match is None:
        raise ValueError(f"{value!r} is not FROM-TO")
    first, last = int(match[1]), int(match[2])
    if not 1 <= first <= last <= 65535:
        raise ValueError(f"{value!r}: ports go from 1 to 65535, the smaller one first")
    return PortRange(first=first, last=last)


def check_ip_address(text: str) -> str:
    """Check an IP address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address") from None


def read_listen_address(value: object) -> object:
    """Read [HOST]:PORT."""
    if not isinstance(value, str):
        return value
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{value!r} is not [HOST]:PORT")
    return ListenAddress(host.strip("[]"), int(port))


def read_api_server(value: object) -> object:
    """Read HOST:PORT, as containers are to reach it."""
    if not isinstance(value, str):
        return value
    host, colon, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"{value!r} is not HOST:PORT")
    if not is_dns_subdomain(host) and not _is_ip_address(host):
        raise ValueError(f"{value!r}: {host!r} is neither a host name nor an IP address")
    return ApiServerAddress(host, int(port))


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
