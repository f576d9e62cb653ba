"""Asking an API server at the start until it lets us."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from provider.errors import MissingRightsError, StartError
from vkubelet.kube.errors import ForbiddenError, KubeError, UnauthorizedError

logger = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_SECONDS = 2.0

SETTLE_SECONDS = 10.0
"""How long an API server that has just come up may refuse what it will allow."""


async def wait_accepted(cluster: str, step: Callable[[], Awaitable[T]]) -> T:
    """
    Take a step at an API server until it succeeds, and return its result.

    A server that can't be reached or fails is asked again for ever. A refusal ends it; only in the
    first seconds after an outage it doesn't: until a server has loaded its roles it refuses all.

    Args:
        cluster: "home" or "remote", for messages.
        step: What is asked; it can be asked again.

    Raises:
        StartError: If the credentials aren't accepted.
        MissingRightsError: If the step raises it.
    """
    loop = asyncio.get_running_loop()
    settled_at = loop.time()
    while True:
        try:
            return await step()
        except (UnauthorizedError, ForbiddenError) as error:
            if loop.time() >= settled_at:
                raise StartError(f"the {cluster} credentials aren't accepted: {error}") from error
            logger.info("%s API server: %s; it has just come up, trying again", cluster, error)
        except MissingRightsError as error:
            if loop.time() >= settled_at:
                raise
            logger.info("%s; the API server has just come up, trying again", error)
        except KubeError as error:
            settled_at = loop.time() + SETTLE_SECONDS
            logger.warning("%s API server: %s; trying again", cluster, error)
        await asyncio.sleep(RETRY_SECONDS)
