"""Requests: their shape, and what becomes of them at the API; in virtual time."""

import asyncio
import base64
import ipaddress
from collections.abc import AsyncIterator
from typing import Protocol

import pytest
from cryptography import x509

from certs.csr import (
    KUBELET_SERVING_SIGNER,
    MAX_SENDING,
    CertificateRequester,
    SigningRequest,
    build_certificate_signing_request,
    make_signing_request,
    parse_signing_request,
)
from certs.errors import CertificateError, NotIssuedError
from certs.keys import generate_key, parse_key, serialize_key
from tests.certs.signer import Signer, add_condition, has_condition
from tests.fakes.api_server import ApiCall, FakeApiServer
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import UnreachableError
from vkubelet.kube.names import is_dns_subdomain
from vkubelet.kube.objects import CERTIFICATE_SIGNING_REQUESTS, KubeObject

pytestmark = pytest.mark.virtual_time


class MakeRequester(Protocol):
    def __call__(self, *, approve: bool = True) -> CertificateRequester: ...


LONG_NAME = "n" * 62 + "." + "n" * 62 + "." + "n" * 62 + "." + "n" * 62
CREATE = "create certificatesigningrequests"
APPROVE = "update certificatesigningrequests/approval"
WATCH = "watch certificatesigningrequests"


@pytest.fixture
def request_() -> SigningRequest:
    return make_signing_request("a", ["10.0.0.1"])


LABELS = {"owner": "us"}


@pytest.fixture
async def requester(client: KubeClient) -> AsyncIterator[MakeRequester]:
    """Makes requesters that run until the test ends."""
    async with asyncio.TaskGroup() as group:
        tasks = []

        def make(*, approve: bool = True) -> CertificateRequester:
            made = CertificateRequester(
                client, signer_name=KUBELET_SERVING_SIGNER, labels=LABELS, approve=approve
            )
            tasks.append(group.create_task(made.run()))
            return made

        yield make
        for task in tasks:
            task.cancel()


def stored(server: FakeApiServer, request: SigningRequest) -> KubeObject:
    return stored_at(server, request.name)


def stored_at(server: FakeApiServer, name: str) -> KubeObject:
    return server.get(CERTIFICATE_SIGNING_REQUESTS, "", name)


def test_shape_that_the_kubelet_signer_wants() -> None:
    request = make_signing_request("a", ["10.0.0.1", "fd00::1", "a.example.com"])
    parsed = x509.load_pem_x509_csr(request.request_pem)
    names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert parsed.subject.rfc4514_string() == "CN=system:node:a,O=system:nodes"
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_address("fd00::1"),
    ]
    assert names.get_values_for_type(x509.DNSName) == ["a.example.com"]
    assert parsed.is_signature_valid
    assert parsed.public_key() == parse_key(request.key_pem).public_key()
    body = build_certificate_signing_request(request, "example.com/signer", LABELS)
    assert base64.b64decode(body["spec"]["request"]) == request.request_pem
    assert body["spec"]["usages"] == ["digital signature", "server auth"]
    assert body["spec"]["signerName"] == "example.com/signer"
    assert body["metadata"]["labels"] == LABELS


@pytest.mark.parametrize("node", ["a", "csr-1", LONG_NAME, "n" * 179 + ".b"])
def test_names_of_requests(node: str) -> None:
    first = make_signing_request(node, ["10.0.0.1"])
    second = make_signing_request(node, ["10.0.0.1"])
    assert is_dns_subdomain(first.name)
    assert not first.name.startswith("csr-")
    assert first.name != second.name


def test_kept_request_is_read_again(request_: SigningRequest) -> None:
    pems = request_.request_pem, request_.key_pem
    assert parse_signing_request(*pems, "a", ["10.0.0.1"]) == request_
    for request_pem, key_pem, addresses, problem in (
        (b"", request_.key_pem, ["10.0.0.1"], "holds no signing request"),
        (request_.request_pem, b"", ["10.0.0.1"], "holds no private key"),
        (request_.request_pem, serialize_key(generate_key()), ["10.0.0.1"], "isn't the request's"),
        (*pems, ["10.0.0.2"], "for other addresses"),
    ):
        with pytest.raises(CertificateError, match=problem):
            parse_signing_request(request_pem, key_pem, "a", addresses)


async def test_approved_by_ourselves(
    server: FakeApiServer, requester: MakeRequester, signer: Signer, request_: SigningRequest
) -> None:
    pem = await requester().obtain(request_)
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.public_key() == parse_key(request_.key_pem).public_key()
    assert signer.signed == [request_.name]
    (condition,) = stored(server, request_)["status"]["conditions"]
    assert condition["type"] == "Approved"
    assert condition["reason"] == "AutoApproved"


async def test_approved_by_somebody_else_later(
    server: FakeApiServer, requester: MakeRequester, signer: Signer, request_: SigningRequest
) -> None:
    async with asyncio.TaskGroup() as group:
        obtaining = group.create_task(requester(approve=False).obtain(request_))
        await asyncio.sleep(14 * 60)
        assert not obtaining.done()
        assert not server.calls(APPROVE)
        add_condition(server, request_.name, "Approved", "ByHand", "fine")
    assert obtaining.result().startswith(b"-----BEGIN CERTIFICATE-----")
    assert len(signer.signed) == 1


async def test_not_answered_in_time(requester: MakeRequester, request_: SigningRequest) -> None:
    with pytest.raises(NotIssuedError, match=r"issued no certificate within 15 minutes"):
        await requester(approve=False).obtain(request_)
    assert asyncio.get_running_loop().time() == pytest.approx(15 * 60, abs=1)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Denied", "denied: NoWay: not today"),
        ("Failed", "failed: NoWay: not today"),
    ],
)
async def test_refused(
    server: FakeApiServer,
    requester: MakeRequester,
    request_: SigningRequest,
    kind: str,
    message: str,
) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(refuse(server, request_, kind))
        with pytest.raises(NotIssuedError, match=message):
            await requester(approve=False).obtain(request_)


async def refuse(server: FakeApiServer, request: SigningRequest, kind: str) -> None:
    await server.wait_for_calls(CREATE)
    await asyncio.sleep(1)
    add_condition(server, request.name, kind, "NoWay", "not today")


async def test_deleted_while_pending(
    server: FakeApiServer, requester: MakeRequester, request_: SigningRequest
) -> None:
    async def delete() -> None:
        await server.wait_for_calls(CREATE)
        await asyncio.sleep(1)
        server.remove(CERTIFICATE_SIGNING_REQUESTS, "", request_.name)

    async with asyncio.TaskGroup() as group:
        group.create_task(delete())
        with pytest.raises(NotIssuedError, match="was deleted"):
            await requester(approve=False).obtain(request_)


async def test_waiting_survives_trouble(
    server: FakeApiServer, requester: MakeRequester, signer: Signer, request_: SigningRequest
) -> None:
    async with asyncio.TaskGroup() as group:
        obtaining = group.create_task(requester(approve=False).obtain(request_))
        await server.wait_for_calls(CREATE)
        await server.wait_for_watches(WATCH, 2)
        server.fail_next(WATCH, 500, times=3)
        server.drop_next(WATCH)
        server.fail_next(WATCH, 410, reason="Expired", as_event=True)
        server.end_next(WATCH, times=3)
        server.cut_watches()
        await server.wait_for_watches(WATCH, 2)
        add_condition(server, request_.name, "Approved", "ByHand", "fine")
        await obtaining
    assert signer.signed == [request_.name]


async def test_many_at_once_take_few_connections_and_one_watch(
    server: FakeApiServer, requester: MakeRequester, signer: Signer
) -> None:
    sending = set()
    most = 0

    async def approve(call: ApiCall) -> KubeObject:
        nonlocal most
        sending.add(call.resource.name)
        most = max(most, len(sending))
        await asyncio.sleep(1)
        sending.remove(call.resource.name)
        return server.put({**stored_at(server, call.resource.name), "status": call.body["status"]})

    server.handle(APPROVE, approve)
    made = requester()
    requests = [make_signing_request(f"n{number}", ["10.0.0.1"]) for number in range(45)]
    async with asyncio.TaskGroup() as group:
        for request in requests:
            group.create_task(made.obtain(request))
    assert len(signer.signed) == 45
    assert most == MAX_SENDING
    assert len(server.calls(WATCH)) == 2  # the signer's own is one
    assert asyncio.get_running_loop().time() < 10


async def test_pending_ones_hold_up_no_others(
    server: FakeApiServer, requester: MakeRequester, signer: Signer, request_: SigningRequest
) -> None:
    made = requester(approve=False)
    requests = [make_signing_request(f"n{number}", ["10.0.0.1"]) for number in range(30)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(made.obtain(request)) for request in requests]
        await asyncio.sleep(60)
        add_condition(server, requests[-1].name, "Approved", "ByHand", "fine")
        await asyncio.sleep(1)
        assert [task.done() for task in tasks] == [*[False] * 29, True]
        for task in tasks:
            task.cancel()
    assert signer.signed == [requests[-1].name]


async def test_sent_before_a_restart(
    server: FakeApiServer, requester: MakeRequester, signer: Signer, request_: SigningRequest
) -> None:
    await requester().obtain(request_)
    await requester().obtain(request_)
    assert len(server.objects(CERTIFICATE_SIGNING_REQUESTS)) == 1
    assert signer.signed == [request_.name]


async def test_somebody_elses_request_is_never_approved(
    server: FakeApiServer, requester: MakeRequester, request_: SigningRequest
) -> None:
    other = make_signing_request("evil", ["10.6.6.6"])
    body = build_certificate_signing_request(other, KUBELET_SERVING_SIGNER, LABELS)
    server.put({**body, "metadata": {**body["metadata"], "name": request_.name}})
    with pytest.raises(NotIssuedError, match="exists, but isn't ours"):
        await requester().obtain(request_)
    assert not server.calls(APPROVE)


async def test_request_without_our_labels_is_not_ours(
    server: FakeApiServer, requester: MakeRequester, request_: SigningRequest
) -> None:
    body = build_certificate_signing_request(request_, KUBELET_SERVING_SIGNER, {})
    server.put(body)
    with pytest.raises(NotIssuedError, match="exists, but isn't ours"):
        await requester().obtain(request_)


async def test_approval_conflicts_are_retried(
    server: FakeApiServer, requester: MakeRequester, signer: Signer, request_: SigningRequest
) -> None:
    server.fail_next(APPROVE, 409, reason="Conflict", times=3)
    await requester().obtain(request_)
    assert len(server.calls(APPROVE)) == 4
    assert has_condition(stored(server, request_), "Approved")


async def test_missing_right_to_create(
    server: FakeApiServer, requester: MakeRequester, request_: SigningRequest
) -> None:
    text = 'User "vk" cannot create resource "certificatesigningrequests"'
    server.fail_next(CREATE, 403, reason="Forbidden", message=text)
    with pytest.raises(NotIssuedError, match=f"a right is missing: {text}"):
        await requester().obtain(request_)


async def test_missing_right_to_approve(
    server: FakeApiServer,
    requester: MakeRequester,
    signer: Signer,
    request_: SigningRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.fail_next(APPROVE, 403, reason="Forbidden", message="cannot approve")
    async with asyncio.TaskGroup() as group:
        obtaining = group.create_task(requester().obtain(request_))
        await server.wait_for_calls(APPROVE)
        await asyncio.sleep(1)
        add_condition(server, request_.name, "Approved", "ByHand", "fine")
        await obtaining
    assert signer.signed == [request_.name]
    assert "update on certificatesigningrequests/approval" in caplog.text
    assert "approve on signers/kubernetes.io/kubelet-serving" in caplog.text
    assert "cannot approve" in caplog.text


async def test_unreachable(
    server: FakeApiServer, requester: MakeRequester, request_: SigningRequest
) -> None:
    await server.stop()
    with pytest.raises(UnreachableError):
        await requester().obtain(request_)
