"""Metrics of the API clients and work queues."""

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter(
    "vkubelet_kube_requests",
    "Requests to an API server, by answer; code is 'error' when none came.",
    ("cluster", "verb", "code"),
)

QUEUE_DEPTH = Gauge("vkubelet_queue_depth", "Keys that wait to be reconciled.", ("queue",))
RECONCILES = Counter(
    "vkubelet_reconciles",
    "Reconciles by how they ended: done, failed (tried again), error (a bug; tried again).",
    ("queue", "result"),
)
RECONCILE_SECONDS = Histogram(
    "vkubelet_reconcile_seconds",
    "How long a reconcile took.",
    ("queue",),
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
