"""Reading the configuration: file < environment < flags, checked before anything starts."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from provider.config import ConfigField, config_fields
from provider.errors import ConfigError
from provider.flags import Section

T = TypeVar("T", bound=Section)

Origins = dict[tuple[str, str], str]


def load_config(
    model: type[T], *, file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> T:
    """
    Build the configuration of a command.

    Args:
        model: The part of the tree that the command takes; a file may hold all of it.
        file: YAML of the whole tree, camel-case keys.
        environment: `VKUBELET_…` variables; a repeatable one holds several values separated by ";".
        flags: Values by flag name, those that were given.

    Raises:
        ConfigError: One line that names the flag, key or variable.
    """
    whole = _read_file(file) if file is not None else {}
    _check_keys(whole, file)
    tree: dict[str, dict[str, Any]] = {}
    origins: Origins = {}
    for item in config_fields(model):
        section, key = item.path
        values = tree.setdefault(section, {})
        if key in whole.get(section, {}):
            origins[item.path] = f"{section}.{key} in {file}"
            values[key] = whole[section][key]
        given = _from_environment(item, environment)
        if given is not None:
            origins[item.path], values[key] = given
        if item.flag.name in flags:
            origins[item.path], values[key] = item.flag.name, flags[item.flag.name]
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_explain(error, model, origins)) from error


def _read_file(file: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"--config {file}: not YAML: {text}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"--config {file}: a mapping is expected at the top")
    return {str(key): {} if value is None else value for key, value in tree.items()}


def _check_keys(tree: Mapping[str, Any], file: Path | None) -> None:
    """Find a misspelt key anywhere in a file, also where the command doesn't look."""
    known: dict[str, set[str]] = {}
    for item in config_fields():
        known.setdefault(item.path[0], set()).add(item.path[1])
    for section, values in tree.items():
        if section not in known:
            raise ConfigError(f"--config {file}: unknown key {section}")
        if not isinstance(values, dict):
            raise ConfigError(f"--config {file}: {section}: a mapping is expected")
        for key in values:
            if key not in known[section]:
                raise ConfigError(f"--config {file}: unknown key {section}.{key}")


def _from_environment(
    item: ConfigField, environment: Mapping[str, str]
) -> tuple[str, str | list[str]] | None:
    variables = [item.flag.variable]
    if item.flag.name == "--kubelet-address":
        variables.append("POD_IP")  # the downward API's usual name
    for variable in variables:
        text = environment.get(variable, "")
        if text:
            return variable, _split(text) if item.repeatable else text
    return None


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def _explain(error: ValidationError, model: type[Section], origins: Origins) -> str:
    """Say the first thing that is wrong in one line."""
    by_path = {item.path: item for item in config_fields(model)}
    details = error.errors()
    first = min(details, key=_importance)
    location = tuple(str(part) for part in first["loc"])
    path = (location[0], location[1]) if len(location) > 1 else None
    item = by_path.get(path) if path is not None else None
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    message = message.replace("a valid tuple", "a list").partition(", unable to parse")[0]
    if item is None or path is None:
        return message
    if first["type"] == "missing":
        missing = [
            by_path[(str(each["loc"][0]), str(each["loc"][1]))].flag.name
            for each in details
            if each["type"] == "missing"
        ]
        return f"{', '.join(missing)} must be given"
    origin = origins.get(path, item.flag.name)
    shown = _shown(first["input"])
    if first["type"] != "value_error" and shown is not None:
        message = f"{message}, not {shown!r}"
    return f"{origin}: {message}"


def _importance(detail: Mapping[str, Any]) -> int:
    """Rank wrong values first, then missing ones, then what a section lacks as a whole."""
    if detail["type"] == "missing":
        return 1
    return 0 if len(detail["loc"]) > 1 else 2


def _shown(value: object) -> str | None:
    return value if isinstance(value, str) else None


def environment_of_process() -> Mapping[str, str]:
    """The process's environment; read here and nowhere else."""
    return os.environ


def unknown_variables(names: Iterable[str]) -> list[str]:
    """Return the `VKUBELET_…` names that mean nothing: most likely misspelt."""
    known = {item.flag.variable for item in config_fields()} | {"VKUBELET_CONFIG"}
    return sorted(name for name in names if name.startswith("VKUBELET_") and name not in known)
