"""What an API server is asked for when a pod is to be evicted, and what it may say."""

import pytest

from tests.fakes.api_server import FakeApiServer
from vkubelet.kube.errors import ConflictError, KubeError, NotFoundError, TooManyRequestsError
from vkubelet.kube.eviction import evict_pod
from vkubelet.kube.objects import NamespacedName

KEY = NamespacedName("demo", "web")
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "demo", "name": "web", "uid": "u"},
    "spec": {"nodeName": "n"},
}


async def test_names_the_pod_by_its_uid() -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        fake.put(POD)
        await evict_pod(client, KEY, uid="u")
        (call,) = fake.calls("create pods/eviction")
        assert call.path == "/api/v1/namespaces/demo/pods/web/eviction"
        assert call.body["apiVersion"] == "policy/v1"
        assert call.body["deleteOptions"] == {"preconditions": {"uid": "u"}}


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, NotFoundError), (409, ConflictError), (429, TooManyRequestsError), (500, KubeError)],
)
async def test_refusals_are_the_callers_business(status: int, error: type[KubeError]) -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        fake.fail_next("create pods/eviction", status, times=20)
        with pytest.raises(error):
            await evict_pod(client, KEY, uid="u")
