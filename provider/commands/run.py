"""`vkubelet run`: serve the virtual nodes of one remote cluster until stopped."""

import asyncio
import logging
import sys
from typing import Final

from provider.app import run
from provider.buffers import shrink_tls_buffers
from provider.collector import calm_collector
from provider.config import Config
from provider.errors import StartError
from provider.mapping.errors import MappingError
from provider.node_plan import build_mapping
from vkubelet.errors import ShutdownRequested
from vkubelet.kube.errors import AccessError, KubeError

logger = logging.getLogger(__name__)

LOOP_FACTORY: Final = asyncio.new_event_loop
"""
Not uvloop: its TLS (tried: 0.23) throws away what it has received when the peer closes while
reading is paused, and so the tail of any output that comes faster than it's taken.
"""


def main(config: Config) -> int:
    """
    Run until a signal.

    Returns:
        0 when a signal asked for the end, 1 when it couldn't start or go on.

    Raises:
        ConfigError: If the node mapping can't be made.
    """
    exit_code = 0
    calm_collector()
    shrink_tls_buffers()
    mapping = build_mapping(config.nodes, config.remote.cluster)
    try:
        with asyncio.Runner(loop_factory=LOOP_FACTORY) as runner:
            runner.run(run(config, mapping))
    except* ShutdownRequested:
        logger.info("stopped")
    except* (StartError, AccessError, KubeError, MappingError) as group:
        for error in _leaves(group):
            sys.stderr.write(f"vkubelet: {error}\n")
        exit_code = 1
    except* Exception as group:
        for error in _leaves(group):
            logger.exception("ended by an unexpected error", exc_info=error)
        exit_code = 1
    return exit_code


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
