"""Serving certificates that stay valid: where they come from, and when the next one is due."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from certs.ca import KeyPair, issue_self_signed
from certs.csr import KUBELET_SERVING_SIGNER, CertificateRequester, make_signing_request
from certs.errors import CertificateError, NotIssuedError
from certs.names import find_uncovered
from certs.store import CertificateStore, ServingCertificate, check_pair, describe_pair
from vkubelet.kube.backoff import compute_delay
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError

logger = logging.getLogger(__name__)

Clock: TypeAlias = Callable[[], datetime]
"""Tells the current time, with its zone."""

SELF_SIGNED_LIFETIME: Final = timedelta(days=365)

_ROTATION_SPAN: Final = (0.7, 0.9)
"""The next certificate is due between these shares of the life of one, as with kubelets."""

_SHORTEST_USE: Final = timedelta(minutes=1)

_LONGEST_SLEEP_SECONDS: Final = 3600.0
"""The system's clock may jump; so it's looked at that often."""

_FIRST_RETRY_SECONDS: Final = 2.0
_LAST_RETRY_SECONDS: Final = 600.0

_FILE_CHECK_SECONDS: Final = 10.0


def read_clock() -> datetime:
    """Return the system's time."""
    return datetime.now(UTC)


class SelfSignedCertificates:
    """Certificates that nobody can verify; for API servers that don't."""

    def __init__(self, data_dir: Path, *, clock: Clock = read_clock) -> None:
        self._store = CertificateStore(data_dir)
        self._clock = clock

    async def run(self) -> NoReturn:
        """Do nothing until cancelled: there is nobody to hear from."""
        await asyncio.Event().wait()
        raise AssertionError("nothing sets that event")

    async def watch_certificate(
        self, node_name: str, addresses: Sequence[str]
    ) -> AsyncIterator[ServingCertificate]:
        """
        Yield a certificate at once, then each that replaces it before it expires.

        Raises:
            CertificateError: If it can't be written.
        """
        while True:
            serving = await self.provide(node_name, addresses)
            yield serving
            await _wait_due(self._clock, serving)

    async def provide(self, node_name: str, addresses: Sequence[str]) -> ServingCertificate:
        """
        Return the stored certificate while it's good for some time, else a new one.

        Raises:
            CertificateError: If it can't be written.
        """
        return await asyncio.to_thread(self._provide, node_name, addresses, self._clock())

    def forget(self, node_name: str) -> None:
        """Remove key and certificate of a node that is no more."""
        self._store.forget(node_name)

    def _provide(
        self, node_name: str, addresses: Sequence[str], now: datetime
    ) -> ServingCertificate:
        stored = self._store.load_self_signed(node_name, addresses, now)
        if stored is not None and now < _share_of_life(stored, _ROTATION_SPAN[0]):
            return stored
        pair = issue_self_signed(node_name, addresses, lifetime=SELF_SIGNED_LIFETIME, now=now)
        return self._store.save_self_signed(node_name, pair)


class FileCertificates:
    """One pair of files for all nodes, kept up to date by someone else."""

    def __init__(
        self, certificate_file: Path, key_file: Path, *, clock: Clock = read_clock
    ) -> None:
        self._certificate_file = certificate_file
        self._key_file = key_file
        self._clock = clock

    async def run(self) -> NoReturn:
        """Do nothing until cancelled: there is nobody to hear from."""
        await asyncio.Event().wait()
        raise AssertionError("nothing sets that event")

    async def watch_certificate(
        self, node_name: str, addresses: Sequence[str]
    ) -> AsyncIterator[ServingCertificate]:
        """
        Yield the files at once, and again when they have changed; bad files are passed over.

        Raises:
            CertificateError: If the files can't be used at the start.
        """
        version = await asyncio.to_thread(self._read_version)
        yield await asyncio.to_thread(self._load, node_name, addresses, self._clock())
        while True:
            await asyncio.sleep(_FILE_CHECK_SECONDS)
            newer = await asyncio.to_thread(self._read_version)
            if newer == version:
                continue
            version = newer
            try:
                serving = await asyncio.to_thread(self._load, node_name, addresses, self._clock())
            except CertificateError as error:
                logger.warning("%s: keeping the certificate that is loaded: %s", node_name, error)
                continue
            logger.info("%s: certificate changed, valid until %s", node_name, serving.not_after)
            yield serving

    def forget(self, node_name: str) -> None:
        """Do nothing: the files aren't ours."""

    def _load(self, node_name: str, addresses: Sequence[str], now: datetime) -> ServingCertificate:
        leaf = check_pair(self._certificate_file, self._key_file)
        if uncovered := find_uncovered(leaf, addresses):
            logger.warning(
                "%s: %s isn't made out to %s: API servers that verify refuse it",
                node_name,
                self._certificate_file,
                ", ".join(uncovered),
            )
        if now >= leaf.not_valid_after_utc:
            logger.warning("%s: %s has expired", node_name, self._certificate_file)
        return describe_pair(
            leaf,
            self._certificate_file,
            self._key_file,
            self_signed=leaf.issuer == leaf.subject,
        )

    def _read_version(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_read_file_version(path) for path in (self._certificate_file, self._key_file))


class CsrCertificates:
    """Certificates that a signer of the home cluster issues; self-signed ones until it has."""

    def __init__(
        self,
        home_client: KubeClient,
        data_dir: Path,
        *,
        labels: Mapping[str, str],
        signer_name: str = KUBELET_SERVING_SIGNER,
        approve: bool = False,
        clock: Clock = read_clock,
    ) -> None:
        self._signer_name = signer_name
        self._requester = CertificateRequester(
            home_client, signer_name=signer_name, labels=labels, approve=approve
        )
        self._self_signed = SelfSignedCertificates(data_dir, clock=clock)
        self._store = CertificateStore(data_dir)
        self._clock = clock

    async def run(self) -> NoReturn:
        """Follow what becomes of our requests until cancelled."""
        await self._requester.run()

    async def watch_certificate(
        self, node_name: str, addresses: Sequence[str]
    ) -> AsyncIterator[ServingCertificate]:
        """
        Yield a certificate at once, then each that replaces it.

        The first is the stored one of the signer, else self-signed. Requests that come to nothing
        are logged and made again for ever. Cancelling leaves a pending request: the next start
        goes on waiting for it.

        Raises:
            CertificateError: If a self-signed certificate can't be written.
        """
        serving = await asyncio.to_thread(
            self._store.load_issued, node_name, addresses, self._signer_name, self._clock()
        )
        if serving is None:
            serving = await self._self_signed.provide(node_name, addresses)
        yield serving
        if not serving.self_signed:
            await _wait_due(self._clock, serving)
        failures = 0
        while True:
            issued = await self._try_obtain(node_name, addresses, failures)
            if issued is not None:
                failures = 0
                serving = issued
                yield serving
                await _wait_due(self._clock, serving)
                continue
            failures += 1
            if self._clock() >= serving.not_after:
                serving = await self._self_signed.provide(node_name, addresses)
                yield serving

    def forget(self, node_name: str) -> None:
        """Remove key, certificate and pending request of a node that is no more."""
        self._store.forget(node_name)

    async def _try_obtain(
        self, node_name: str, addresses: Sequence[str], failures: int
    ) -> ServingCertificate | None:
        """Return what was issued; None, after a pause, if nothing was."""
        try:
            return await self._obtain(node_name, addresses)
        except (CertificateError, KubeError) as error:
            pause = compute_delay(
                failures + 1, base_seconds=_FIRST_RETRY_SECONDS, max_seconds=_LAST_RETRY_SECONDS
            )
            logger.warning(
                "%s: no certificate from %s, trying again in %.0f s (meanwhile logs and exec fail "
                "if the API server verifies kubelets): %s",
                node_name,
                self._signer_name,
                pause,
                error,
            )
        await asyncio.sleep(pause)
        return None

    async def _obtain(self, node_name: str, addresses: Sequence[str]) -> ServingCertificate:
        request = await asyncio.to_thread(self._store.load_request, node_name, addresses)
        if request is None:
            request = make_signing_request(node_name, addresses)
            await asyncio.to_thread(self._store.save_request, node_name, request)
        try:
            chain_pem = await self._requester.obtain(request)
            serving = await asyncio.to_thread(
                self._store.save_issued,
                node_name,
                addresses,
                self._signer_name,
                KeyPair(certificate_pem=chain_pem, key_pem=request.key_pem),
                self._clock(),
            )
        except NotIssuedError:
            await asyncio.to_thread(self._store.forget_request, node_name)
            raise
        await asyncio.to_thread(self._store.forget_request, node_name)
        logger.info("%s: certificate issued, valid until %s", node_name, serving.not_after)
        return serving


async def _wait_due(clock: Clock, serving: ServingCertificate) -> None:
    """Wait until the next certificate is due; at random, so that nodes don't come all at once."""
    share = random.uniform(*_ROTATION_SPAN)  # noqa: S311 - no secret
    # A signer whose clock is wrong mustn't be asked in a busy loop.
    due = max(_share_of_life(serving, share), clock() + _SHORTEST_USE)
    # Nothing tells when the system's clock jumps.
    while (remaining := (due - clock()).total_seconds()) > 0:  # noqa: ASYNC110
        await asyncio.sleep(min(remaining, _LONGEST_SLEEP_SECONDS))


def _share_of_life(serving: ServingCertificate, share: float) -> datetime:
    return serving.not_before + (serving.not_after - serving.not_before) * share


def _read_file_version(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with the file's content, None while it can't be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
