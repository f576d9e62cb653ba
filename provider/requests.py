"""
What the scheduler counts for a pod.

Source: component-helpers resource/helpers.go (PodRequests with status resources), and for `pods`
the NodeResourcesFit plugin, which counts each pod as one.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from vkubelet.kube.objects import ObjectMeta
from vkubelet.kube.quantity import parse_quantity

Resources: TypeAlias = Mapping[str, Decimal]
"""Amounts by resource name: cores, bytes, pieces."""

NOTHING: Resources = MappingProxyType({})
ONE = Decimal(1)
TERMINAL_PHASES = ("Succeeded", "Failed")
POD_LEVEL_RESOURCES = ("cpu", "memory")
HUGE_PAGES_PREFIX = "hugepages-"

_ResourceList: TypeAlias = dict[str, str]

_parse = lru_cache(maxsize=4096)(parse_quantity)  # a cluster's pods use few distinct amounts


class _Requirements(msgspec.Struct, frozen=True):
    requests: _ResourceList | None = None


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resources: _Requirements | None = None
    restart_policy: str | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resources: _Requirements | None = None
    allocated_resources: _ResourceList | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: _ResourceList | None = None
    resources: _Requirements | None = None


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    conditions: list[_Condition] | None = None
    resources: _Requirements | None = None
    allocated_resources: _ResourceList | None = None


class CountedPod(msgspec.Struct, frozen=True):
    """The part of a pod that is counted."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


_decoder = msgspec.json.Decoder(CountedPod)

decode_counted_pod: Callable[[bytes], CountedPod] = _decoder.decode
"""JSON bytes of a pod to the part that is counted."""


def pod_requests(pod: CountedPod) -> Resources:
    """
    Compute what a pod takes of its node.

    That is the most of init path and containers with sidecars, plus overhead, with pod-level
    resources and in-place resize; one of `pods`; nothing once the pod is terminal.
    """
    if pod.status.phase in TERMINAL_PHASES:
        return NOTHING
    requests = _container_requests(pod)
    _apply_pod_level(requests, pod)
    _add(requests, pod.spec.overhead)
    requests["pods"] = ONE
    return requests


def _container_requests(pod: CountedPod) -> dict[str, Decimal]:
    statuses: dict[str, _ContainerStatus] = {
        status.name: status
        for status in (
            *(pod.status.init_container_statuses or ()),
            *(pod.status.container_statuses or ()),
        )
    }
    infeasible = _is_resize_infeasible(pod)
    specified = _aggregate(pod, lambda container: _requests(container.resources))
    if not infeasible and _is_as_specified(pod, statuses):
        return specified

    def allocated(container: _Container) -> _ResourceList | None:
        status = statuses.get(container.name)
        if status is not None and status.allocated_resources is not None:
            return status.allocated_resources
        return None if infeasible else _requests(container.resources)

    def actuated(container: _Container) -> _ResourceList | None:
        status = statuses.get(container.name)
        actual = _requests(status.resources) if status is not None else None
        return allocated(container) if actual is None else actual

    if pod.status.allocated_resources is not None and _requests(pod.status.resources) is not None:
        total = _decode(pod.status.allocated_resources)
        _raise_to(total, _decode(_requests(pod.status.resources)))
    else:
        total = _aggregate(pod, allocated)
        _raise_to(total, _aggregate(pod, actuated))
    if not infeasible:
        _raise_to(total, specified)
    return total


def _is_as_specified(pod: CountedPod, statuses: Mapping[str, _ContainerStatus]) -> bool:
    """Whether no status tells of other requests than the spec, as it is but amid a resize."""
    if not statuses:
        return True
    if pod.status.allocated_resources is not None:
        return False
    for container in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
        status = statuses.get(container.name)
        if status is None:
            continue
        specified = _requests(container.resources) or {}
        for told in (status.allocated_resources, _requests(status.resources)):
            if told is not None and told != specified:
                return False
    return True


def _aggregate(
    pod: CountedPod, requests_of: Callable[[_Container], _ResourceList | None]
) -> dict[str, Decimal]:
    """Sum over containers and sidecars, or the most that the init path takes, whichever is more."""
    total: dict[str, Decimal] = {}
    for container in pod.spec.containers or ():
        _add(total, requests_of(container))
    sidecars: dict[str, Decimal] = {}
    init_path: dict[str, Decimal] = {}
    for container in pod.spec.init_containers or ():
        requests = requests_of(container)
        if container.restart_policy == "Always":
            _add(total, requests)
            _add(sidecars, requests)
            _raise_to(init_path, sidecars)
        else:
            step = dict(sidecars)
            _add(step, requests)
            _raise_to(init_path, step)
    _raise_to(total, init_path)
    return total


def _apply_pod_level(requests: dict[str, Decimal], pod: CountedPod) -> None:
    specified = _requests(pod.spec.resources)
    if not specified or not any(_is_pod_level(name) for name in specified):
        return
    effective = _decode(specified)
    if pod.status.resources is not None:
        if _is_resize_infeasible(pod):
            effective = {}
        _raise_to(effective, _decode(_requests(pod.status.resources)))
        _raise_to(effective, _decode(pod.status.allocated_resources))
    requests.update({name: value for name, value in effective.items() if _is_pod_level(name)})


def _is_pod_level(name: str) -> bool:
    return name in POD_LEVEL_RESOURCES or name.startswith(HUGE_PAGES_PREFIX)


def _is_resize_infeasible(pod: CountedPod) -> bool:
    pending = (
        condition
        for condition in pod.status.conditions or ()
        if condition.type == "PodResizePending"
    )
    first = next(pending, None)
    return first is not None and first.reason == "Infeasible"


def _requests(requirements: _Requirements | None) -> _ResourceList | None:
    return requirements.requests if requirements is not None else None


def _decode(amounts: _ResourceList | None) -> dict[str, Decimal]:
    return {name: _parse(text) for name, text in (amounts or {}).items()}


def _add(total: dict[str, Decimal], amounts: _ResourceList | None) -> None:
    for name, text in (amounts or {}).items():
        value, known = _parse(text), total.get(name)
        total[name] = value if known is None else known + value


def _raise_to(total: dict[str, Decimal], floor: Resources) -> None:
    for name, value in floor.items():
        if name not in total or total[name] < value:
            total[name] = value


def add_resources(amounts: Iterable[Resources]) -> dict[str, Decimal]:
    """Add up amounts, key by key."""
    total: dict[str, Decimal] = {}
    for each in amounts:
        for name, value in each.items():
            total[name] = total.get(name, Decimal(0)) + value
    return total
