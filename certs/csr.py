"""Certificate signing requests: made for a node, sent to the API, awaited."""

import asyncio
import base64
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from certs.errors import CertificateError, NotIssuedError
from certs.keys import generate_key, parse_key, serialize_key
from certs.names import (
    NODES_ORGANIZATION,
    build_alternative_names,
    build_node_common_name,
    build_subject,
)
from certs.sent import SentRequests
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import AlreadyExistsError, ConflictError, ForbiddenError
from vkubelet.kube.objects import CERTIFICATE_SIGNING_REQUESTS, KubeObject

logger = logging.getLogger(__name__)

KUBELET_SERVING_SIGNER: Final = "kubernetes.io/kubelet-serving"
"""Signer of the certificates of kubelets; each cluster's controller manager has it."""

USAGES: Final = ("digital signature", "server auth")
"""Exactly what the kubelet-serving signer asks of a key that isn't RSA."""

ISSUE_TIMEOUT_SECONDS: Final = 15 * 60.0
"""How long a request is awaited, as kubelets do."""

MAX_SENDING: Final = 10
"""Requests that are sent and approved at once; each takes a connection meanwhile."""

_CONFLICT_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningRequest:
    """
    A request for a node's serving certificate, with its key.

    Attributes:
        name: Name of the CertificateSigningRequest; follows from the node's name and the request.
        request_pem: The PKCS #10 request.
        key_pem: The key that it's for.
    """

    name: str
    request_pem: bytes
    key_pem: bytes


def make_signing_request(node_name: str, addresses: Sequence[str]) -> SigningRequest:
    """Make a key and a request of exactly the shape that the kubelet-serving signer wants."""
    key = generate_key()
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(build_subject(build_node_common_name(node_name), [NODES_ORGANIZATION]))
        .add_extension(build_alternative_names(addresses), critical=False)
        .sign(key, hashes.SHA256())
    )
    request_pem = request.public_bytes(serialization.Encoding.PEM)
    return _name_request(node_name, request_pem, serialize_key(key))


def parse_signing_request(
    request_pem: bytes, key_pem: bytes, node_name: str, addresses: Sequence[str]
) -> SigningRequest:
    """
    Read a request that was kept.

    Raises:
        CertificateError: If it isn't one for these addresses, or the key isn't its own.
    """
    try:
        request = x509.load_pem_x509_csr(request_pem)
    except ValueError as error:
        raise CertificateError("holds no signing request") from error
    if request.public_key() != parse_key(key_pem).public_key():
        raise CertificateError("holds a key that isn't the request's")
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if set(names) != set(build_alternative_names(addresses)):
        raise CertificateError("holds a request for other addresses")
    return _name_request(node_name, request_pem, key_pem)


def _name_request(node_name: str, request_pem: bytes, key_pem: bytes) -> SigningRequest:
    # Amazon's signer ignores requests whose names begin with "csr-".
    digest = hashlib.sha256(request_pem).hexdigest()[:16]
    name = f"vkubelet-{node_name[:180].rstrip('.-')}-{digest}"
    return SigningRequest(name=name, request_pem=request_pem, key_pem=key_pem)


def build_certificate_signing_request(
    request: SigningRequest, signer_name: str, labels: Mapping[str, str]
) -> KubeObject:
    """Build the API object of a request."""
    return {
        "apiVersion": CERTIFICATE_SIGNING_REQUESTS.api_version,
        "kind": CERTIFICATE_SIGNING_REQUESTS.kind,
        "metadata": {"name": request.name, "labels": dict(labels)},
        "spec": {
            "request": base64.b64encode(request.request_pem).decode(),
            "signerName": signer_name,
            "usages": list(USAGES),
        },
    }


class CertificateRequester:
    """Has certificates issued by a signer of the cluster."""

    def __init__(
        self,
        client: KubeClient,
        *,
        signer_name: str,
        labels: Mapping[str, str],
        approve: bool,
    ) -> None:
        """
        Prepare; `run` has to run for answers to be seen.

        Args:
            client: The home cluster.
            signer_name: Who is asked.
            labels: Tell our requests from all others.
            approve: Whether we approve them ourselves.
        """
        self._client = client
        self._signer_name = signer_name
        self._labels = labels
        self._approves = approve
        self._sent = SentRequests(client, labels)
        self._slots = asyncio.Semaphore(MAX_SENDING)

    async def run(self) -> NoReturn:
        """Follow what becomes of the requests until cancelled."""
        await self._sent.run()

    async def obtain(self, request: SigningRequest) -> bytes:
        """
        Send a request (or find it sent) and wait for its certificate, as PEM.

        Passing trouble while waiting is sat out; cancelling leaves the request at the API.

        Raises:
            NotIssuedError: If it's denied, fails, vanishes, or isn't answered in time.
            KubeError: If it can't be sent or read.
        """
        try:
            async with asyncio.timeout(ISSUE_TIMEOUT_SECONDS):
                async with self._slots:
                    sent = await self._send(request)
                    if self._approves:
                        await self._approve(sent)
                return await self._sent.wait_issued(request.name)
        except TimeoutError:
            raise NotIssuedError(
                f"{request.name}: {self._signer_name} issued no certificate within "
                f"{ISSUE_TIMEOUT_SECONDS / 60:.0f} minutes; does someone approve requests "
                "(kubectl certificate approve, or --approve-csr)?"
            ) from None
        except ForbiddenError as error:
            raise NotIssuedError(f"{request.name}: a right is missing: {error.message}") from error

    async def _send(self, request: SigningRequest) -> KubeObject:
        body = build_certificate_signing_request(request, self._signer_name, self._labels)
        try:
            return await self._client.create(CERTIFICATE_SIGNING_REQUESTS, body)
        except AlreadyExistsError:
            found = await self._read(request.name)
        # Approving what somebody else put there under our name would certify anyone.
        if any(found["spec"].get(field) != value for field, value in body["spec"].items()) or any(
            found["metadata"].get("labels", {}).get(key) != value
            for key, value in self._labels.items()
        ):
            raise NotIssuedError(f"{request.name}: exists, but isn't ours")
        return found

    async def _approve(self, request: KubeObject) -> None:
        name = request["metadata"]["name"]
        try:
            while not _is_decided(request):
                try:
                    await self._client.replace(
                        CERTIFICATE_SIGNING_REQUESTS,
                        _with_approval(request),
                        subresource="approval",
                    )
                except ConflictError:
                    await asyncio.sleep(_CONFLICT_PAUSE_SECONDS)
                    newer = await self._read(name)
                    if newer["spec"] != request["spec"]:
                        raise NotIssuedError(f"{name}: was replaced by another request") from None
                    request = newer
                else:
                    logger.info("%s: approved", name)
                    return
        except ForbiddenError as error:
            logger.warning(
                "%s: can't be approved by us, waiting for somebody else to do it: needs update on "
                "certificatesigningrequests/approval and approve on signers/%s: %s",
                name,
                self._signer_name,
                error.message,
            )

    async def _read(self, name: str) -> KubeObject:
        # By list: with create and watch it's all the rights that are needed.
        found = await self._client.list(CERTIFICATE_SIGNING_REQUESTS, field_selector=_select(name))
        if not found:
            raise NotIssuedError(f"{name}: was deleted before it was answered")
        return found[0]


def _is_decided(request: KubeObject) -> bool:
    conditions = (request.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") in {"Approved", "Denied"} for condition in conditions)


def _with_approval(request: KubeObject) -> KubeObject:
    status = request.get("status") or {}
    approval = {
        "type": "Approved",
        "status": "True",
        "reason": "AutoApproved",
        "message": "Approved by vkubelet, which asked for it (--approve-csr).",
        "lastUpdateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {
        **request,
        "status": {**status, "conditions": [*(status.get("conditions") or ()), approval]},
    }


def _select(name: str) -> str:
    return f"metadata.name={name}"
