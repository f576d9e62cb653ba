"""Metrics of the API clients."""

from prometheus_client import Counter

REQUESTS = Counter(
    "vkubelet_kube_requests",
    "Requests to an API server, by answer; code is 'error' when none came.",
    ("cluster", "verb", "code"),
)
