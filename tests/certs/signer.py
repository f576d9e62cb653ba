"""What signs requests in a real cluster: the approver and the controller manager."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from certs.ca import CertificateAuthority
from tests.fakes.api_server import FakeApiServer
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError
from vkubelet.kube.objects import CERTIFICATE_SIGNING_REQUESTS, KubeObject, decode_object

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


class WallClock:
    """A wall clock that goes with the loop's, and jumps when it's told to."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        return START + self._ahead + timedelta(seconds=asyncio.get_running_loop().time())

    def jump(self, ahead: timedelta) -> None:
        self._ahead += ahead


def has_condition(request: KubeObject, kind: str) -> bool:
    conditions = request.get("status", {}).get("conditions", [])
    return any(condition["type"] == kind for condition in conditions)


def add_condition(server: FakeApiServer, name: str, kind: str, reason: str, message: str) -> None:
    """Decide a request by hand, as `kubectl certificate` does."""
    request = server.get(CERTIFICATE_SIGNING_REQUESTS, "", name)
    condition = {"type": kind, "status": "True", "reason": reason, "message": message}
    status = request.get("status", {})
    conditions = [*status.get("conditions", []), condition]
    server.put({**request, "status": {**status, "conditions": conditions}})


class Signer:
    """Signs approved requests as they are; `lifetime` may be changed."""

    def __init__(self, server: FakeApiServer, client: KubeClient, clock: WallClock) -> None:
        self.authority = CertificateAuthority.create("cluster", now=START)
        self.lifetime = timedelta(hours=1)
        self.signed: list[str] = []
        self._server = server
        self._client = client
        self._clock = clock

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            signing = group.create_task(self.run())
            yield
            signing.cancel()

    async def run(self) -> None:
        while True:
            events = self._client.watch(CERTIFICATE_SIGNING_REQUESTS, send_initial_events=True)
            with suppress(KubeError):
                async with aclosing(events):
                    async for event in events:
                        if event.type in {"ADDED", "MODIFIED"}:
                            self.handle(decode_object(event.object))
            await asyncio.sleep(0.1)

    def handle(self, request: KubeObject) -> None:
        if not has_condition(request, "Approved") or request["status"].get("certificate"):
            return
        pem = self.authority.sign_serving_request(
            base64.b64decode(request["spec"]["request"]), lifetime=self.lifetime, now=self._clock()
        )
        self.signed.append(request["metadata"]["name"])
        certificate = base64.b64encode(pem).decode()
        self._server.put({**request, "status": {**request["status"], "certificate": certificate}})
