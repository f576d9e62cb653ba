"""Pods in the remote cluster as clients of home's API server."""

import sys

import msgspec
import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.dependents.pods import build, wait_log
from tests.cluster.product.cloud import create, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]

WHO_AM_I = """
import json, os, ssl, time, urllib.request
folder = os.environ["POD_ROOT"] + "/var/run/secrets/kubernetes.io/serviceaccount/"
token = open(folder + "token").read()
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
request = urllib.request.Request(
    f"https://{host}:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews",
    data=json.dumps(
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    ).encode(),
    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
)
context = ssl.create_default_context(cafile=folder + "ca.crt")
with urllib.request.urlopen(request, context=context) as response:
    print("I am", json.dumps(json.load(response)["status"]["userInfo"]), flush=True)
time.sleep(3600)
"""


async def test_a_pod_talks_to_homes_api_server_as_its_service_account(
    home: Cluster, remote: Cluster, granted: str
) -> None:
    await home.kubectl("create", "serviceaccount", "builder", f"--namespace={granted}")
    container = {"name": "main", "image": "any", "command": [sys.executable, "-c", WHO_AM_I]}
    await create(
        home, build("client", granted, containers=[container], serviceAccountName="builder")
    )
    pod = await wait_pod(home, "client", granted, "client", phase="Running")
    log = await wait_log(home, "client", granted, "I am")
    user = msgspec.json.decode(log.partition("I am ")[2].splitlines()[0])
    assert user["username"] == f"system:serviceaccount:{granted}:builder"
    extra = user["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["client"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]

    async def list_tokens() -> list[str]:
        selector = "--selector=vkubelet.io/dependent=token"
        completed = await remote.kubectl(
            "get", "secrets", f"--namespace={granted}-there", selector, "-o", "name"
        )
        return completed.stdout.split()

    assert len(await list_tokens()) == 1
    await home.kubectl("delete", "pod", "client", f"--namespace={granted}", "--wait=false")

    async def gone() -> bool:
        return not await list_tokens()

    await wait_until(gone, "the token goes", timeout_seconds=60)
