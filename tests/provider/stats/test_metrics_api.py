"""Answers of a metrics API."""

from datetime import UTC, datetime

import msgspec
import pytest

from provider.stats.metrics_api import (
    decode_node_metrics,
    decode_pod_metrics,
    parse_node_rate,
    parse_rates,
    parse_starts,
)

TIME = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def encode(**changes: object) -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}},
            "timestamp": "2026-01-01T12:00:00Z",
            "window": "17.5s",
            "containers": [{"name": "main", "usage": {"cpu": "1500000n", "memory": "20Mi"}}],
            **changes,
        }
    )


def test_pod() -> None:
    rates = parse_rates(decode_pod_metrics(encode()))
    main = rates["main"]
    assert (main.time, main.window_seconds) == (TIME, 17.5)
    assert (main.cores, main.memory_bytes) == (0.0015, 20 << 20)


@pytest.mark.parametrize(
    ("window", "seconds"), [("1m30s", 90), ("500ms", 0.5), ("", 15), ("soon", 15), ("0s", 15)]
)
def test_windows(window: str, seconds: float) -> None:
    rates = parse_rates(decode_pod_metrics(encode(window=window)))
    assert rates["main"].window_seconds == seconds


def test_missing_and_negative_values() -> None:
    containers = [{"name": "a", "usage": {}}, {"name": "b", "usage": {"cpu": "-1", "memory": "-5"}}]
    rates = parse_rates(decode_pod_metrics(encode(containers=containers)))
    assert [(rate.cores, rate.memory_bytes) for rate in rates.values()] == [(0, 0), (0, 0)]


@pytest.mark.parametrize(
    "changes",
    [
        {"timestamp": "yesterday"},
        {"containers": [{"name": "a", "usage": {"cpu": "much"}}]},
        {"containers": None},
        {"metadata": {}},
        {"containers": [{"name": "a", "usage": {"cpu": 1}}]},
    ],
)
def test_bad_answers(changes: dict[str, object]) -> None:
    with pytest.raises((ValueError, msgspec.ValidationError)):
        parse_rates(decode_pod_metrics(encode(**changes)))


def test_node() -> None:
    raw = encode(metadata={"name": "worker"}, usage={"cpu": "2", "memory": "1Gi"})
    rate = parse_node_rate(decode_node_metrics(raw))
    assert (rate.cores, rate.memory_bytes) == (2, 1 << 30)


def test_starts() -> None:
    running = {"state": {"running": {"startedAt": "2026-01-01T12:00:00Z"}}}
    pod = {
        "status": {
            "startTime": "2026-01-01T12:00:00Z",
            "containerStatuses": [
                {"name": "a", **running},
                {"name": "b", "state": {"terminated": {"exitCode": 0}}},
                {"name": "c", "state": {"running": {"startedAt": None}}},
                {"name": "d"},
            ],
            "initContainerStatuses": [{"name": "sidecar", **running}],
        }
    }
    assert parse_starts(msgspec.json.encode(pod)) == (TIME, {"a": TIME, "sidecar": TIME})
    assert parse_starts(b"{}") == (None, {})
