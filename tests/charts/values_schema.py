"""
Writes the charts' values.schema.json: `python -m tests.charts.values_schema` (`make charts`).

What stands under `config` is made from the configuration tree; all else is described here, and
values.yaml holds a value for each of it.
"""

import enum
import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any

from annotated_types import Ge, Le
from pydantic import AfterValidator, BeforeValidator
from pydantic.alias_generators import to_camel

from provider import checks
from provider.config import Config, config_fields

CHARTS = Path(__file__).parents[2] / "charts"

SET_BY_CHART = frozenset(
    {
        ("home", "kubeconfig"),
        ("home", "context"),
        ("remote", "kubeconfig"),
        ("kubelet", "address"),
        ("process", "healthAddress"),
        ("process", "dataDir"),
    }
)
"""Keys of the configuration that the chart sets itself."""

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?"
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"({_SUBDOMAIN}/)?{_WORD}"
_EFFECT = "(NoSchedule|PreferNoSchedule|NoExecute)"
_TIME = r"([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,8}s)?"

PATTERNS: Mapping[Callable[..., object], str] = {
    checks.check_dns_label: _LABEL,
    checks.check_dns_subdomain: _SUBDOMAIN,
    checks.check_namespace_name: rf"(\*|{_LABEL})",
    checks.check_label_key: _KEY,
    checks.check_label_pair: rf"{_KEY}=({_WORD})?",
    checks.check_annotation_pair: rf"{_KEY}=[^\n]*",
    checks.check_taint: rf"{_KEY}(=({_WORD})?)?:{_EFFECT}",
    checks.read_port_range: r"[0-9]{1,5}-[0-9]{1,5}",
    checks.read_capacity_limit: rf"{_KEY}=[0-9.]+[A-Za-z0-9]*",
    checks.read_named_selector: r"[^=]+=[^\n]+",
    checks.read_api_server: r"\S+:[0-9]{1,5}",
}
"""What a value has to look like at least; the process itself checks it in full."""

DURATION = {
    "oneOf": [
        {"type": "string", "pattern": rf"^(never|[0-9]{{1,8}}|{_TIME})$", "minLength": 1},
        {"type": "integer", "minimum": 0},
    ]
}


def build_config_schema() -> dict[str, Any]:
    """Build the schema of `config` from the configuration tree."""
    sections: dict[str, Any] = {}
    for item in config_fields(Config):
        if item.path in SET_BY_CHART:
            continue
        section, key = item.path
        part: Any = _section(section)
        schema = sections.setdefault(
            section, _build_object({}, description=inspect.cleandoc(part.__doc__ or ""))
        )
        hints = typing.get_type_hints(part, include_extras=True)
        hint = next(hint for name, hint in hints.items() if to_camel(name) == key)
        schema["properties"][key] = {**_build_leaf(hint), "description": item.help}
    sections["remote"]["required"] = ["cluster"]
    sections["namespaces"]["anyOf"] = [
        {"required": ["names"], "properties": {"names": {"minItems": 1}}},
        {"required": ["selector"]},
    ]
    config = _build_object(
        sections, description="The configuration of the process; see docs/configuration.md."
    )
    return {**config, "required": ["remote", "namespaces"]}


def _section(name: str) -> Any:
    fields = Config.model_fields
    return next(field.annotation for key, field in fields.items() if to_camel(key) == name)


def _build_object(properties: dict[str, Any], *, description: str = "") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    if description:
        schema["description"] = description
    return {**schema, "properties": properties}


def _build_leaf(hint: Any) -> dict[str, Any]:
    kind, metadata = _unwrap(hint)
    readers = (AfterValidator, BeforeValidator)
    validators = [item.func for item in metadata if isinstance(item, readers)]
    if checks.read_duration in validators or checks.read_timeout in validators:
        return DURATION
    if typing.get_origin(kind) is tuple:
        return {"type": "array", "items": _build_leaf(typing.get_args(kind)[0])}
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return {"enum": [member.value for member in kind]}
    if kind in (bool, int):
        return _build_number(kind, metadata)
    pattern = next((PATTERNS[item] for item in validators if item in PATTERNS), None)
    return {"type": "string"} if pattern is None else {"type": "string", "pattern": f"^{pattern}$"}


def _build_number(kind: type, metadata: list[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "boolean" if kind is bool else "integer"}
    for item in metadata:
        if isinstance(item, Ge):
            schema["minimum"] = item.ge
        if isinstance(item, Le):
            schema["maximum"] = item.le
    return schema


def _unwrap(hint: Any) -> tuple[Any, list[Any]]:
    """Return the bare type under annotations and `| None`, and all annotations' metadata."""
    metadata: list[Any] = []
    while True:
        if hasattr(hint, "__metadata__"):
            for item in hint.__metadata__:
                metadata += getattr(item, "metadata", None) or [item]
            hint = typing.get_args(hint)[0]
        elif typing.get_origin(hint) in (UnionType, typing.Union):
            hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        else:
            return hint, metadata


# What isn't configuration.

STRING: dict[str, Any] = {"type": "string"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
PORT: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 65535}
NAME: dict[str, Any] = {"type": "string", "pattern": rf"^({_SUBDOMAIN})?$"}
STRINGS: dict[str, Any] = {"type": "array", "items": STRING}
MAP: dict[str, Any] = {"type": "object", "additionalProperties": STRING}
KUBERNETES: dict[str, Any] = {"type": "object"}
"""A part of a Kubernetes object, which the API server checks."""
KUBERNETES_LIST: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
LEVELS: dict[str, Any] = {"enum": ["restricted", "baseline", "privileged"]}


def _monitor() -> dict[str, Any]:
    return _build_object(
        {
            "enabled": BOOLEAN,
            "interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
            "labels": MAP,
        }
    )


def build_home_schema() -> dict[str, Any]:
    """Build the schema of charts/vkubelet."""
    return _finish(
        {
            "config": build_config_schema(),
            "remoteKubeconfig": {
                **_build_object(
                    {
                        "secretName": {**NAME, "minLength": 1},
                        "key": {"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"},
                    }
                ),
                "required": ["secretName", "key"],
            },
            "image": _build_object(
                {
                    "repository": {"type": "string", "minLength": 1},
                    "tag": {"type": "string", "pattern": r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"},
                    "digest": {"type": "string", "pattern": "^(sha256:[a-f0-9]{64})?$"},
                    "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
                }
            ),
            "imagePullSecrets": KUBERNETES_LIST,
            "serviceAccount": _build_object({"annotations": MAP}),
            "rbac": _build_object({"create": BOOLEAN, "dependents": BOOLEAN}),
            "admissionPolicy": _build_object({"enabled": BOOLEAN, "nodeNames": STRINGS}),
            "networkPolicy": _build_object(
                {"enabled": BOOLEAN, "apiServerCIDRs": STRINGS, "metricsFrom": KUBERNETES_LIST}
            ),
            "podDisruptionBudget": _build_object({"enabled": BOOLEAN}),
            "priorityClass": _build_object(
                {
                    "create": BOOLEAN,
                    "name": NAME,
                    "value": {"type": "integer", "maximum": 1000000000},
                }
            ),
            "healthPort": PORT,
            "hostNetwork": BOOLEAN,
            "resources": KUBERNETES,
            "nodeSelector": MAP,
            "tolerations": KUBERNETES_LIST,
            "affinity": KUBERNETES,
            "podAnnotations": MAP,
            "podLabels": MAP,
            "env": KUBERNETES_LIST,
            "extraVolumes": KUBERNETES_LIST,
            "extraVolumeMounts": KUBERNETES_LIST,
            "terminationGracePeriodSeconds": COUNT,
            "persistence": _build_object(
                {
                    "enabled": BOOLEAN,
                    "size": {"type": "string", "pattern": "^[0-9.]+([KMGT]i?)?$"},
                    "storageClass": STRING,
                }
            ),
            "podMonitor": _monitor(),
            "serviceMonitor": _monitor(),
            "dashboard": _build_object({"enabled": BOOLEAN, "labels": MAP}),
            "teardownOnUninstall": BOOLEAN,
            "test": _build_object({"image": STRING, "command": STRINGS}),
        }
    )


def build_remote_schema() -> dict[str, Any]:
    """Build the schema of charts/vkubelet-remote."""
    schema = _finish(
        {
            "peering": {"type": "string", "pattern": f"^{_LABEL}$"},
            "homeClusterUID": {"type": "string", "pattern": "^([-0-9a-f]{36})?$"},
            "namespaces": {"type": "array", "items": {"type": "string", "pattern": f"^{_LABEL}$"}},
            "createNamespaces": BOOLEAN,
            "podSecurity": LEVELS,
            "resourceQuota": KUBERNETES,
            "metrics": BOOLEAN,
            "teardown": BOOLEAN,
            "admissionPolicy": _build_object({"enabled": BOOLEAN}),
            "serviceAccount": _build_object({"annotations": MAP}),
        }
    )
    return {**schema, "required": ["peering"]}


def _finish(properties: dict[str, Any]) -> dict[str, Any]:
    """Make the whole schema; `global` is what Helm hands to charts within charts."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_build_object({**properties, "global": KUBERNETES}),
    }


def render() -> Iterator[tuple[Path, str]]:
    """Yield each file and its text."""
    for chart, schema in (
        ("vkubelet", build_home_schema()),
        ("vkubelet-remote", build_remote_schema()),
    ):
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        yield CHARTS / chart / "values.schema.json", text


if __name__ == "__main__":
    for file, text in render():
        file.write_text(text, encoding="utf-8")
