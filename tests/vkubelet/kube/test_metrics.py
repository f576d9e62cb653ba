from prometheus_client import REGISTRY

from vkubelet.kube.metrics import REQUESTS


def test_requests_are_counted_by_cluster_verb_and_code() -> None:
    REQUESTS.labels("home", "test", "200").inc()
    labels = {"cluster": "home", "verb": "test", "code": "200"}
    assert REGISTRY.get_sample_value("vkubelet_kube_requests_total", labels) == 1
