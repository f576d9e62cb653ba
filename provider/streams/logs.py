"""The log of a remote container, chunk by chunk."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC

from provider.streams.failures import RemotePod
from vkubelet.errors import RequestError
from vkubelet.interface import LogOptions, LogStream
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError
from vkubelet.kube.objects import PODS

logger = logging.getLogger(__name__)


async def relay_logs(
    client: KubeClient, pod: RemotePod, container: str, options: LogOptions
) -> AsyncIterator[bytes]:
    """
    Yield a container's log as it comes; see `Provider.logs`.

    When the remote cluster goes away, a log that is followed ends, as with a kubelet that restarts;
    any other fails, since its reader counts on having it whole.
    """
    path = PODS.path(pod.key.namespace, pod.key.name, "log")
    started = False
    try:
        async with client.stream(path, build_log_query(container, options)) as response:
            started = True
            if options.follow:
                yield b""
            async for chunk in response.content.iter_any():
                yield chunk
    except KubeError as error:
        if not started:
            raise pod.build_error("pods/log", error) from error
        logger.warning("%s: log of %s was cut off: %s", pod.key, container, error)
        if not options.follow:
            raise RequestError(500, "the remote cluster cut the log off") from error


def build_log_query(container: str, options: LogOptions) -> list[tuple[str, str]]:
    """Build the query of `pods/NAME/log`."""
    query = [("container", container)]
    flags = {
        "follow": options.follow,
        "previous": options.previous,
        "timestamps": options.timestamps,
    }
    query += [(name, "true") for name, is_set in flags.items() if is_set]
    numbers = {
        "tailLines": options.tail_lines,
        "sinceSeconds": options.since_seconds,
        "limitBytes": options.limit_bytes,
    }
    query += [(name, str(value)) for name, value in numbers.items() if value is not None]
    if options.since_time is not None:
        # The API takes whole seconds; a line more is better than one less.
        since = options.since_time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        query.append(("sinceTime", since))
    if options.stream is not LogStream.ALL:
        query.append(("stream", options.stream.value))
    return query
