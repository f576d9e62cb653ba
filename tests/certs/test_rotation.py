"""Certificates that stay valid, by a wall clock that goes with the loop's virtual time."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest
from cryptography import x509

from certs.ca import CertificateAuthority, KeyPair
from certs.errors import CertificateError
from certs.rotation import CsrCertificates, FileCertificates, SelfSignedCertificates
from certs.store import ServingCertificate
from tests.certs.signer import START, Signer, WallClock, add_condition
from tests.fakes.api_server import FakeApiServer
from vkubelet.interface import CertificateSource
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import CERTIFICATE_SIGNING_REQUESTS

pytestmark = pytest.mark.virtual_time

ADDRESSES = ["10.0.0.1"]
DAY = timedelta(days=1)
CREATE = "create certificatesigningrequests"
LOCAL = "example.com/signer"
LABELS = {"owner": "us"}


class MakeSource(Protocol):
    def __call__(self, *, approve: bool = True, signer_name: str = LOCAL) -> CsrCertificates: ...


def now() -> float:
    return asyncio.get_running_loop().time()


def read_leaf(serving: ServingCertificate) -> x509.Certificate:
    """The leaf, after a server has taken the pair."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(serving.certificate_file, serving.key_file)
    return x509.load_pem_x509_certificate(serving.certificate_file.read_bytes())


@pytest.fixture
async def csr(client: KubeClient, tmp_path: Path, clock: WallClock) -> AsyncIterator[MakeSource]:
    """Makes sources over one data folder, as restarts do; they run until the test ends."""
    async with asyncio.TaskGroup() as group:
        tasks = []

        def make(*, approve: bool = True, signer_name: str = LOCAL) -> CsrCertificates:
            source = CsrCertificates(
                client,
                tmp_path,
                labels=LABELS,
                signer_name=signer_name,
                approve=approve,
                clock=clock,
            )
            tasks.append(group.create_task(source.run()))
            return source

        yield make
        for task in tasks:
            task.cancel()


async def first(certificates: AsyncIterator[ServingCertificate]) -> ServingCertificate:
    return await anext(certificates)


async def obtain(source: CsrCertificates) -> ServingCertificate:
    """The issued one, which comes second."""
    certificates = source.watch_certificate("a", ADDRESSES)
    await anext(certificates)
    issued = await anext(certificates)
    assert not issued.self_signed
    return issued


async def drain(certificates: AsyncIterator[ServingCertificate]) -> None:
    async for _ in certificates:
        pass


def stored_files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.pem"))


async def test_sources_satisfy_the_interface(client: KubeClient, tmp_path: Path) -> None:
    sources: list[CertificateSource] = [
        CsrCertificates(client, tmp_path, labels=LABELS),
        FileCertificates(tmp_path / "a", tmp_path / "b"),
        SelfSignedCertificates(tmp_path),
    ]
    assert len(sources) == 3


class TestCsr:
    async def test_self_signed_until_issued(self, csr: MakeSource, signer: Signer) -> None:
        certificates = csr().watch_certificate("a", ADDRESSES)
        serving = await first(certificates)
        assert serving.self_signed
        assert read_leaf(serving).subject.rfc4514_string() == "CN=system:node:a,O=system:nodes"
        issued = await anext(certificates)
        assert not issued.self_signed
        root = x509.load_pem_x509_certificate(signer.authority.certificate_pem)
        read_leaf(issued).verify_directly_issued_by(root)
        assert now() < 1

    async def test_restart_uses_what_is_stored(
        self, server: FakeApiServer, csr: MakeSource, signer: Signer
    ) -> None:
        issued = await obtain(csr())
        assert await first(csr().watch_certificate("a", ADDRESSES)) == issued
        assert len(server.calls(CREATE)) == 1
        assert len(signer.signed) == 1

    @pytest.mark.parametrize(
        ("addresses", "signer_name"), [(["10.0.0.2"], LOCAL), (ADDRESSES, "example.com/other")]
    )
    async def test_other_addresses_or_signer(
        self, csr: MakeSource, signer: Signer, addresses: list[str], signer_name: str
    ) -> None:
        await obtain(csr())
        certificates = csr(signer_name=signer_name).watch_certificate("a", addresses)
        assert (await first(certificates)).self_signed
        assert not (await anext(certificates)).self_signed
        assert len(signer.signed) == 2

    @pytest.mark.usefixtures("signer")
    async def test_rotation(self, csr: MakeSource) -> None:
        certificates = csr().watch_certificate("a", ADDRESSES)
        await anext(certificates)
        serials = {read_leaf(await anext(certificates)).serial_number for _ in range(5)}
        assert len(serials) == 5
        # Four rotations at 70 to 90 % of 65 minutes, of which five were over at the start.
        assert 4 * (0.7 * 65 - 5) <= now() / 60 <= 4 * (0.9 * 65 - 5) + 1

    @pytest.mark.usefixtures("signer")
    async def test_restart_in_time_for_rotation(self, csr: MakeSource) -> None:
        issued = await obtain(csr())
        await asyncio.sleep(0.95 * 3600)
        certificates = csr().watch_certificate("a", ADDRESSES)
        assert await first(certificates) == issued
        restarted_at = now()
        assert (await anext(certificates)).not_after > issued.not_after
        assert now() - restarted_at < 61

    async def test_clock_that_jumps(
        self, csr: MakeSource, signer: Signer, clock: WallClock
    ) -> None:
        signer.lifetime = timedelta(days=365)
        certificates = csr().watch_certificate("a", ADDRESSES)
        await anext(certificates)
        issued = await anext(certificates)
        clock.jump(timedelta(days=400))
        assert (await anext(certificates)).not_after > issued.not_after
        assert now() <= 3601

    async def test_signer_of_useless_lifetimes_is_not_flooded(
        self, csr: MakeSource, signer: Signer
    ) -> None:
        signer.lifetime = timedelta(seconds=10)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(drain(csr().watch_certificate("a", ADDRESSES)))
            await asyncio.sleep(1800)
            watching.cancel()
        assert 10 < len(signer.signed) <= 31

    async def test_denied_ones_are_made_again(
        self, server: FakeApiServer, csr: MakeSource, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def deny() -> None:
            for number in range(1, 100):
                calls = await server.wait_for_calls(CREATE, number)
                await asyncio.sleep(1)
                add_condition(server, calls[-1].body["metadata"]["name"], "Denied", "No", "never")

        async with asyncio.TaskGroup() as group:
            denying = group.create_task(deny())
            watching = group.create_task(
                drain(csr(approve=False).watch_certificate("a", ADDRESSES))
            )
            await asyncio.sleep(3 * 3600)
            denying.cancel()
            watching.cancel()
        names = [call.body["metadata"]["name"] for call in server.calls(CREATE)]
        assert len(set(names)) == len(names)
        assert 3 * 6 < len(names) < 8 + 3 * 12
        assert "a: no certificate from example.com/signer, trying again in" in caplog.text
        assert "denied: No: never" in caplog.text

    async def test_pending_request_survives_a_restart(
        self, server: FakeApiServer, csr: MakeSource, signer: Signer
    ) -> None:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(
                drain(csr(approve=False).watch_certificate("a", ADDRESSES))
            )
            await server.wait_for_calls(CREATE)
            await asyncio.sleep(1)
            watching.cancel()
        (request,) = server.objects(CERTIFICATE_SIGNING_REQUESTS)
        add_condition(server, request["metadata"]["name"], "Approved", "ByHand", "fine")
        certificates = csr(approve=False).watch_certificate("a", ADDRESSES)
        assert (await first(certificates)).self_signed
        assert not (await anext(certificates)).self_signed
        assert len(signer.signed) == 1

    async def test_api_server_that_is_away(
        self, server: FakeApiServer, csr: MakeSource, signer: Signer
    ) -> None:
        server.fail_next(CREATE, 500, times=4)
        server.drop_next(CREATE, times=2)
        certificates = csr().watch_certificate("a", ADDRESSES)
        assert (await first(certificates)).self_signed
        assert not (await anext(certificates)).self_signed
        assert 2 < now() < 2 * 2**6
        assert len(signer.signed) == 1

    async def test_useless_certificate_is_not_used(
        self,
        server: FakeApiServer,
        csr: MakeSource,
        signer: Signer,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        async def heal() -> None:
            await server.wait_for_calls(CREATE, 3)
            signer.lifetime = timedelta(hours=1)

        signer.lifetime = timedelta(0)
        certificates = csr().watch_certificate("a", ADDRESSES)
        assert (await first(certificates)).self_signed
        async with asyncio.TaskGroup() as group:
            group.create_task(heal())
            assert not (await anext(certificates)).self_signed
        assert "issued a certificate that expired" in caplog.text

    async def test_self_signed_one_is_renewed_while_none_is_issued(
        self, csr: MakeSource, clock: WallClock
    ) -> None:
        certificates = csr(approve=False).watch_certificate("a", ADDRESSES)
        serving = await first(certificates)
        clock.jump(timedelta(days=366))
        renewed = await anext(certificates)
        assert renewed.self_signed
        assert serving.not_after <= clock() < renewed.not_after

    async def test_data_dir_that_cannot_be_written(self, csr: MakeSource, tmp_path: Path) -> None:
        tmp_path.joinpath("self-signed").touch()
        with pytest.raises(CertificateError, match=r"a\.pem: can't be written: "):
            await first(csr().watch_certificate("a", ADDRESSES))

    @pytest.mark.usefixtures("signer")
    async def test_forget(self, csr: MakeSource, tmp_path: Path) -> None:
        source = csr()
        await obtain(source)
        assert len(stored_files(tmp_path)) == 2
        source.forget("a")
        assert not stored_files(tmp_path)


class TestSelfSigned:
    async def test_kept_across_restarts_and_renewed(self, tmp_path: Path, clock: WallClock) -> None:
        source = SelfSignedCertificates(tmp_path, clock=clock)
        certificates = source.watch_certificate("a", ADDRESSES)
        serving = await first(certificates)
        assert serving.self_signed
        assert read_leaf(serving).not_valid_after_utc == START + timedelta(days=365)
        again = SelfSignedCertificates(tmp_path, clock=clock)
        assert await first(again.watch_certificate("a", ADDRESSES)) == serving
        clock.jump(timedelta(days=0.91 * 365))
        renewed = await anext(certificates)
        assert renewed.not_after > serving.not_after
        assert read_leaf(renewed).not_valid_after_utc == renewed.not_after

    async def test_other_addresses(self, tmp_path: Path, clock: WallClock) -> None:
        source = SelfSignedCertificates(tmp_path, clock=clock)
        await first(source.watch_certificate("a", ADDRESSES))
        serving = await first(source.watch_certificate("a", ["10.0.0.2", "a.example.com"]))
        names = read_leaf(serving).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        assert names.value.get_values_for_type(x509.DNSName) == ["a.example.com"]
        source.forget("a")
        assert not stored_files(tmp_path)


class TestFiles:
    @pytest.fixture
    def files(self, tmp_path: Path) -> tuple[Path, Path]:
        return tmp_path / "tls.crt", tmp_path / "tls.key"

    def issue(self) -> KeyPair:
        authority = CertificateAuthority.create("ca", now=START)
        return authority.issue("x", ip_addresses=ADDRESSES, server=True, lifetime=DAY, now=START)

    def write(self, files: tuple[Path, Path], pair: KeyPair) -> None:
        files[0].write_bytes(pair.certificate_pem)
        files[1].write_bytes(pair.key_pem)

    async def test_files_are_loaded_again(
        self, files: tuple[Path, Path], clock: WallClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.write(files, self.issue())
        source = FileCertificates(*files, clock=clock)
        certificates = source.watch_certificate("a", ADDRESSES)
        serving = await first(certificates)
        assert not serving.self_signed
        assert serving.not_after == START + DAY
        async with asyncio.TaskGroup() as group:
            following = group.create_task(first(certificates))
            await asyncio.sleep(3600)
            assert not following.done()
            files[0].write_bytes(b"half wri")
            await asyncio.sleep(60)
            assert not following.done()
            assert "keeping the certificate that is loaded" in caplog.text
            files[0].unlink()
            await asyncio.sleep(60)
            newer = self.issue()
            files[0].write_bytes(newer.certificate_pem)
            await asyncio.sleep(60)
            assert "not the certificate's key" in caplog.text
            files[1].write_bytes(newer.key_pem)
            await following
        source.forget("a")
        assert files[0].exists()

    async def test_bad_files_at_the_start(self, files: tuple[Path, Path]) -> None:
        certificates = FileCertificates(*files).watch_certificate("a", ADDRESSES)
        with pytest.raises(CertificateError, match=r"tls.crt: can't be read: No such file"):
            await first(certificates)

    async def test_what_verifying_servers_would_refuse(
        self, files: tuple[Path, Path], clock: WallClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.write(files, self.issue())
        clock.jump(2 * DAY)
        source = FileCertificates(*files, clock=clock)
        with caplog.at_level(logging.WARNING):
            await first(source.watch_certificate("a", ["10.0.0.9", "b"]))
        assert "tls.crt isn't made out to 10.0.0.9, b" in caplog.text
        assert "tls.crt has expired" in caplog.text
