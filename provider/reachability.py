"""Whether the remote API can be reached, from a probe and from the watches."""

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import (
    KubeError,
    ServerError,
    StatusError,
    TooManyRequestsError,
    UnauthorizedError,
)

logger = logging.getLogger(__name__)

PROBE_INTERVAL_SECONDS = 5.0
PROBE_TIMEOUT_SECONDS = 5.0

ReachabilityHandler = Callable[[str | None], None]
"""Called with why the remote API can't be reached, or None once it can."""


class Reachability:
    """
    Tells handlers when the remote API goes and when it's back.

    It's reachable when the probe and every watch get answers. A watch alone can hang for minutes
    on a dead peer, hence the probe. Any answer that isn't 401, 429 or 5xx counts.

    Attributes:
        trouble: Why it can't be reached; None when it can, "" before the first answer.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._troubles: dict[str, str] = {"probe": ""}
        self._handlers: list[ReachabilityHandler] = []
        self.trouble: str | None = ""

    def add_handler(self, handler: ReachabilityHandler) -> None:
        """Register a handler; it's told the state at once if it's known."""
        self._handlers.append(handler)
        if self.trouble != "":
            handler(self.trouble)

    def failure_handler(self, source: str) -> Callable[[Exception | None], None]:
        """Return a failure handler for an Informer, under a name of its own."""

        def report(error: Exception | None) -> None:
            self._report(source, error)

        return report

    async def run(self) -> NoReturn:
        """Probe until cancelled."""
        while True:
            self._report("probe", await self._probe())
            await asyncio.sleep(PROBE_INTERVAL_SECONDS)

    async def _probe(self) -> Exception | None:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                await self._client.get_bytes("/readyz")
        except TimeoutError:
            return TimeoutError(f"no answer within {PROBE_TIMEOUT_SECONDS:g} s")
        except (UnauthorizedError, TooManyRequestsError, ServerError) as error:
            return error
        except StatusError:
            return None
        except KubeError as error:
            return error
        return None

    def _report(self, source: str, error: Exception | None) -> None:
        if error is None:
            self._troubles.pop(source, None)
        else:
            self._troubles[source] = str(error)
        trouble = next(iter(self._troubles.values()), None)
        changed = (trouble is None) != (self.trouble is None) or self.trouble == ""
        self.trouble = trouble
        if not changed or trouble == "":
            return
        if trouble is None:
            logger.info("remote API server %s answers", self._client.server)
        else:
            logger.warning("remote API server can't be reached: %s", trouble)
        for handler in self._handlers:
            handler(trouble)
