"""Both API servers: whether they answer, who we are to them, versions and clocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from provider.checkup.finding import Finding, failure, ok, skipped, warning
from provider.checkup.surroundings import Surroundings, read_version
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import StatusError
from vkubelet.kube.objects import KubeObject, Resource
from vkubelet.times import parse_time, utc_now

SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)

OLDEST_VERSION = (1, 30)
"""The first that has all that is used: ValidatingAdmissionPolicy, streaming lists can be missed."""
NEWEST_VERSION = (1, 37)
"""The newest that tests run against."""

MAX_KUBELET_LAG = 3
"""Minor versions that a kubelet may be older than its API server."""

SLIGHT_SKEW = timedelta(seconds=5)
"""Beyond it times of events and ages look odd; an answer may take a while, too."""
GRAVE_SKEW = timedelta(minutes=4)
"""Certificates are backdated by five minutes: beyond it fresh ones may not be valid yet."""

_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def parse_minor(version: str) -> tuple[int, int] | None:
    """Read major and minor of a version, None if it's none."""
    match = _VERSION.match(version)
    return None if match is None else (int(match[1]), int(match[2]))


async def check_api(client: KubeClient) -> Finding:
    """Say which API server answers, and who we are to it."""
    version = await read_version(client)
    review = await _review(client)
    user = (review.get("status", {}).get("userInfo") or {}).get("username") or "somebody"
    return ok(f"{client.server} answers, {version}; we are {user}")


async def _review(client: KubeClient) -> KubeObject:
    body = {
        "apiVersion": SELF_SUBJECT_REVIEWS.api_version,
        "kind": SELF_SUBJECT_REVIEWS.kind,
    }
    return await client.create(SELF_SUBJECT_REVIEWS, body)


async def check_versions(around: Surroundings) -> list[Finding]:
    """Check that versions are supported, and go together."""
    home, remote = await around.versions()
    findings = [
        *_judge_version("home", home),
        *_judge_version("remote", remote),
        *_judge_kubelets(home, await _find_kubelet_versions(around)),
    ]
    return findings or [ok(f"home {home}, remote {remote}")]


async def _find_kubelet_versions(around: Surroundings) -> dict[str, str]:
    planned = await around.planned()
    return {name: node.node_info.get("kubeletVersion", "") for name, node in planned.nodes.items()}


def _judge_version(cluster: str, version: str) -> Iterator[Finding]:
    minor = parse_minor(version)
    if minor is None:
        yield warning(f"{cluster}: the version {version} isn't understood")
    elif minor < OLDEST_VERSION:
        yield failure(
            f"{cluster}: Kubernetes {version} is too old",
            f"{_format(OLDEST_VERSION)} is the oldest that works",
        )
    elif minor > NEWEST_VERSION:
        yield warning(
            f"{cluster}: Kubernetes {version} is newer than what this version was tested with",
            f"up to {_format(NEWEST_VERSION)} is tested",
        )


def _judge_kubelets(home: str, kubelets: dict[str, str]) -> Iterator[Finding]:
    """Hold the kubelet versions that virtual nodes will show against home's API server."""
    server = parse_minor(home)
    for name, version in sorted(kubelets.items()):
        minor = parse_minor(version)
        if minor is None or server is None:
            continue
        if minor > server:
            yield warning(
                f"virtual node {name}: the kubelets behind it ({version}) are newer than home's"
                f" API server ({home})",
                "pods can use only what both know",
            )
        elif minor[1] + MAX_KUBELET_LAG < server[1]:
            yield warning(
                f"virtual node {name}: a kubelet behind it ({version}) is more than"
                f" {MAX_KUBELET_LAG} versions older than home's API server ({home})",
                "new fields of pods may be ignored there",
            )


def _format(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


@dataclass(frozen=True, slots=True)
class _Skew:
    """By how much a server's clock is ahead of ours, at least."""

    cluster: str
    ahead: timedelta


async def check_clocks(around: Surroundings) -> list[Finding]:
    """Check that the three clocks agree: ours, and those of the two API servers."""
    skews: list[_Skew] = []
    for client in (around.home, around.remote):
        skew = await _measure(client)
        if skew is None:
            return [skipped(f"{client.name}: the API server doesn't tell its time")]
        skews.append(skew)
    bad = [finding for skew in skews for finding in _judge_skew(skew)]
    return bad or [ok(f"the clocks agree to {SLIGHT_SKEW.seconds} s")]


async def _measure(client: KubeClient) -> _Skew | None:
    before = utc_now()
    try:
        review = await _review(client)
    except StatusError:
        return None
    at = parse_time((review.get("metadata") or {}).get("creationTimestamp"))
    return None if at is None else _Skew(client.name, measure_skew(before, at, utc_now()))


def measure_skew(before: datetime, there: datetime, after: datetime) -> timedelta:
    """
    Return by how much another clock is ahead, 0 if it's between ours before and after.

    Its times are cut to whole seconds.
    """
    if there > after:
        return there - after
    latest = there + timedelta(seconds=1)
    return latest - before if latest < before else timedelta(0)


def _judge_skew(skew: _Skew) -> Iterator[Finding]:
    size = abs(skew.ahead)
    if size < SLIGHT_SKEW:
        return
    side = "ahead of" if skew.ahead > timedelta(0) else "behind"
    message = f"{skew.cluster}: its clock is {size.total_seconds():.0f} s {side} ours"
    advice = "set the clocks by NTP"
    yield failure(message, advice) if size >= GRAVE_SKEW else warning(message, advice)
