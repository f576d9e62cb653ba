"""Who signs, who approves, and whether that works."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from certs.ca import issue_self_signed
from provider.checkup.certificates import check_certificates, judge_requests
from provider.checkup.finding import Finding
from tests.provider.checkup.world import open_world, show
from vkubelet.kube.objects import KubeObject

NOW = datetime(2027, 1, 1, 12, 0, tzinfo=UTC)
SIGNER = "kubernetes.io/kubelet-serving"


def request(
    name: str, *, approved: str = "", issued: bool = False, message: str = ""
) -> KubeObject:
    status: dict[str, Any] = {}
    if approved:
        condition = {"type": "Approved", "lastUpdateTime": approved, "message": message}
        status["conditions"] = [condition]
    if issued:
        status["certificate"] = "x"
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {"signerName": SIGNER},
        "status": status,
    }


def judge(*requests: KubeObject, approves: bool = False) -> list[Finding]:
    return judge_requests(requests, NOW, signer=SIGNER, approves=approves)


def test_nobody_was_seen_to_approve() -> None:
    (finding,) = judge()
    assert show([finding]) == [f"warning: nobody has been seen to approve requests for {SIGNER}"]
    assert "--approve-csr" in finding.advice


def test_we_approve_ourselves() -> None:
    (found,) = show(judge(approves=True))
    assert found.startswith("ok: we approve our own requests (--approve-csr); ")


def test_others_were_seen_to_approve_and_sign() -> None:
    approved = "2027-01-01T11:59:00Z"
    (found,) = show(judge(request("a", approved=approved, issued=True, message="by a robot")))
    assert found == f"ok: {SIGNER} signs; requests are approved (by a robot)"
    (found,) = show(judge(request("a", issued=True)))
    assert found == f"ok: {SIGNER} signs; 1 certificates were issued lately"


def test_a_signer_that_does_not_sign() -> None:
    lately = request("a", approved="2027-01-01T11:59:30Z")
    assert show(judge(lately, approves=True))[0].startswith("ok")
    long_ago = request("a", approved="2027-01-01T11:58:00Z")
    (finding,) = judge(long_ago, approves=True)
    assert finding.message == f"{SIGNER} doesn't sign: a is approved and unsigned"
    assert "--certificates files" in finding.advice


def test_ours_that_wait() -> None:
    (finding,) = judge(request("vkubelet-b"), request("vkubelet-a"), request("csr-x"))
    assert finding.message.startswith("2 requests of virtual nodes wait for somebody")
    assert finding.command == "kubectl certificate approve vkubelet-a vkubelet-b"


async def test_requests_are_asked_for_by_signer() -> None:
    async with open_world() as world:
        world.home.put(request("a", approved="2027-01-01T11:59:00Z", issued=True))
        world.home.handle(
            "list certificatesigningrequests",
            lambda call: {
                "items": [request("a", issued=True)],
                "metadata": {},
                "kind": "CertificateSigningRequestList",
                "apiVersion": "certificates.k8s.io/v1",
                "asked": call.query["fieldSelector"],
            },
        )
        (found,) = show(await check_certificates(world.around()))
        assert found.startswith(f"ok: {SIGNER} signs")
        (call,) = world.home.calls("list certificatesigningrequests")
        assert call.query["fieldSelector"] == f"spec.signerName={SIGNER}"


async def test_requests_that_may_not_be_listed() -> None:
    async with open_world() as world:
        world.home.fail_next("list certificatesigningrequests", 403, reason="Forbidden")
        (found,) = show(await check_certificates(world.around()))
        assert found.startswith("skipped: requests may not be listed")


async def test_a_signer_of_clients() -> None:
    async with open_world() as world:
        kubelet = {"signerName": "kubernetes.io/kube-apiserver-client"}
        (found,) = show(await check_certificates(world.around(kubelet=kubelet)))
        assert found.startswith("failure: --signer-name kubernetes.io/kube-apiserver-client")


async def test_self_signed() -> None:
    async with open_world() as world:
        around = world.around(kubelet={"certificates": "self-signed"})
        (found,) = show(await check_certificates(around))
        assert found == "warning: self-signed certificates are verified by nobody"


@pytest.mark.parametrize(
    ("address", "days", "said"),
    [
        ("192.0.2.1", 90, "ok: "),
        ("192.0.2.9", 90, "failure: CERT isn't valid for 192.0.2.9"),
        ("192.0.2.1", 3, "warning: CERT expires at "),
        ("192.0.2.1", -1, "failure: CERT expired at "),
    ],
)
async def test_files(address: str, days: int, said: str, tmp_path: Path) -> None:
    issued = datetime.now(UTC) - timedelta(days=10)
    lifetime = timedelta(days=10 + days)
    pair = issue_self_signed("cloud", ["192.0.2.1"], lifetime=lifetime, now=issued)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    files = {"certificates": "files", "certificateFile": certificate, "keyFile": key}
    async with open_world() as world:
        around = world.around(kubelet={**files, "address": address})
        (found,) = show(await check_certificates(around))
        assert found.startswith(said.replace("CERT", str(certificate)))


async def test_files_that_are_elsewhere_or_broken(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    files = {"certificates": "files", "certificateFile": certificate, "keyFile": key}
    async with open_world() as world:
        around = world.around(kubelet=files)
        (found,) = show(await check_certificates(around))
        assert found == f"skipped: {certificate} isn't on this machine"
        certificate.write_text("nonsense")
        (found,) = show(await check_certificates(around))
        assert found.startswith(f"failure: {certificate}: ")
