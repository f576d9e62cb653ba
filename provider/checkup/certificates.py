"""Serving certificates: who signs them, who approves, and whether that was seen to work."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from certs.csr import KUBELET_SERVING_SIGNER
from certs.errors import CertificateError
from certs.names import find_uncovered
from certs.store import check_pair
from provider.checkup.finding import Finding, failure, ok, skipped, warning
from provider.checkup.surroundings import Surroundings
from provider.command_config import CheckedServingConfig
from provider.config import CertificateMode
from vkubelet.kube.errors import ForbiddenError
from vkubelet.kube.objects import CERTIFICATE_SIGNING_REQUESTS, KubeObject
from vkubelet.times import format_time, parse_time, utc_now

PATIENCE = timedelta(minutes=1)
"""A signer that hasn't signed an approved request by then doesn't."""
SOON = timedelta(days=7)
_OUR_PREFIX = "vkubelet-"


async def check_certificates(around: Surroundings) -> list[Finding]:
    """Check where serving certificates come from."""
    kubelet = around.config.kubelet
    match kubelet.certificates:
        case CertificateMode.CSR:
            return await _check_signer(around)
        case CertificateMode.FILES:
            return await asyncio.to_thread(_check_files, kubelet, utc_now())
        case CertificateMode.SELF_SIGNED:
            return [
                warning(
                    "self-signed certificates are verified by nobody",
                    "API servers with --kubelet-certificate-authority refuse them, and"
                    " metrics-server needs --kubelet-insecure-tls",
                )
            ]


async def _check_signer(around: Surroundings) -> list[Finding]:
    kubelet = around.config.kubelet
    signer = kubelet.signer_name
    if signer.startswith("kubernetes.io/") and signer != KUBELET_SERVING_SIGNER:
        return [
            failure(
                f"--signer-name {signer} doesn't sign serving certificates",
                f"of Kubernetes' own signers only {KUBELET_SERVING_SIGNER} does",
            )
        ]
    try:
        requests = await around.home.list(
            CERTIFICATE_SIGNING_REQUESTS, field_selector=f"spec.signerName={signer}"
        )
    except ForbiddenError:
        return [skipped("requests may not be listed, so it isn't known whether they are signed")]
    return judge_requests(requests, utc_now(), signer=signer, approves=kubelet.approve_csr)


def judge_requests(
    requests: Iterable[KubeObject], now: datetime, *, signer: str, approves: bool
) -> list[Finding]:
    """
    Judge a signer by what it did with the requests that are there (they are kept for an hour).

    Args:
        requests: Those for this signer.
        now: The time.
        signer: Its name.
        approves: Whether we approve our own.
    """
    seen = list(requests)
    issued = [item for item in seen if (item.get("status") or {}).get("certificate")]
    findings = [*_judge_unsigned(seen, now, signer), *_judge_waiting(seen, approves=approves)]
    if findings:
        return findings
    approver = "we approve our own requests (--approve-csr)" if approves else _find_approver(issued)
    if issued:
        if approver:
            return [ok(f"{signer} signs; {approver}")]
        return [ok(f"{signer} signs; {len(issued)} certificates were issued lately")]
    if approves:
        return [ok(f"{approver}; {signer} hasn't been seen at work lately")]
    return [
        warning(
            f"nobody has been seen to approve requests for {signer}",
            "approve them by kubectl certificate approve, run an approver of your own, or use"
            " --approve-csr",
        )
    ]


def _find_approver(issued: Sequence[KubeObject]) -> str:
    """Say by which words requests were approved."""
    for request in issued:
        for condition in (request.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Approved":
                words = condition.get("message") or condition.get("reason") or ""
                return f"requests are approved ({words})" if words else "requests are approved"
    return ""


def _judge_unsigned(
    requests: Iterable[KubeObject], now: datetime, signer: str
) -> Iterator[Finding]:
    for request in requests:
        status = request.get("status") or {}
        approved = next(
            (item for item in status.get("conditions") or () if item.get("type") == "Approved"),
            None,
        )
        if approved is None or status.get("certificate"):
            continue
        at = parse_time(approved.get("lastUpdateTime"))
        if at is not None and now - at > PATIENCE:
            yield failure(
                f"{signer} doesn't sign: {request['metadata']['name']} is approved and unsigned",
                "some providers sign only for their own machines: see docs/install.md;"
                " --certificates files brings certificates of your own",
            )
            return


def _judge_waiting(requests: Iterable[KubeObject], *, approves: bool) -> Iterator[Finding]:
    waiting = [
        request["metadata"]["name"]
        for request in requests
        if request["metadata"]["name"].startswith(_OUR_PREFIX)
        and not (request.get("status") or {}).get("conditions")
    ]
    if waiting and not approves:
        yield failure(
            f"{len(waiting)} requests of virtual nodes wait for somebody to approve them",
            "virtual nodes have no server until then",
            f"kubectl certificate approve {' '.join(sorted(waiting))}",
        )


def _check_files(kubelet: CheckedServingConfig, now: datetime) -> list[Finding]:
    """Look at the files, if this is where they are."""
    certificate, key = kubelet.certificate_file, kubelet.key_file
    if certificate is None or key is None:
        raise AssertionError("checked by ServingConfig")
    if not certificate.exists():
        return [skipped(f"{certificate} isn't on this machine")]
    try:
        leaf = check_pair(certificate, key)
    except CertificateError as error:
        return [failure(str(error))]
    expires = leaf.not_valid_after_utc
    findings: list[Finding] = []
    if expires <= now:
        findings.append(failure(f"{certificate} expired at {format_time(expires)}"))
    elif expires - now < SOON:
        findings.append(warning(f"{certificate} expires at {format_time(expires)}"))
    if kubelet.address is not None and find_uncovered(leaf, [kubelet.address]):
        findings.append(failure(f"{certificate} isn't valid for {kubelet.address}"))
    return findings or [ok(f"{certificate} is valid until {format_time(expires)}")]
