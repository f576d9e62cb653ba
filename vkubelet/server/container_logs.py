"""`/containerLogs/{namespace}/{pod}/{container}`: what `kubectl logs` shows."""

import logging
import re
from collections.abc import AsyncIterator
from datetime import datetime

from aiohttp import web

from vkubelet.errors import RequestError, VkubeletError
from vkubelet.interface import LogOptions, LogStream
from vkubelet.server.errors import StreamInterruptedError
from vkubelet.server.interruption import Interruption
from vkubelet.server.lookup import build_ref, find_pod, has_container, quote
from vkubelet.server.query import parse_query
from vkubelet.server.services import NODE_CONTEXT

logger = logging.getLogger(__name__)

_UNDECODABLE = '{"message": "Unable to decode query."}'
_INVALID = '{"message": "Invalid request."}'
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?P<fraction>\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII
)


async def get_container_logs(request: web.Request) -> web.StreamResponse:
    """
    Stream a container's log.

    Headers go out with the provider's first chunk, even an empty one: until then a refusal can be
    told. A client that leaves cancels this handler, and with it the provider's iterator.
    """
    context = request.app[NODE_CONTEXT]
    namespace, name = request.match_info["namespace"], request.match_info["pod"]
    container = request.match_info["container"]
    options = parse_log_options(parse_query(request))
    pod = find_pod(context.services.pods, context.node_name, namespace, name)
    if not has_container(pod, container):
        raise RequestError(404, f"container {quote(container)} not found in pod {quote(name)}\n")
    chunks = context.services.provider.logs(build_ref(pod), container, options)
    interruption = Interruption()
    with context.streams.add(interruption):
        try:
            return await _send_chunks(request, chunks, interruption)
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()


async def _send_chunks(
    request: web.Request, chunks: AsyncIterator[bytes], interruption: Interruption
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    try:
        async with interruption.guard():
            first = await anext(chunks, b"")
            await response.prepare(request)
            if first:
                await response.write(first)
            async for chunk in chunks:
                if chunk:
                    await response.write(chunk)
            await response.write_eof()
    except ConnectionError:
        raise  # The client left; aiohttp knows what to do.
    except VkubeletError as error:
        if not response.prepared:
            raise _as_request_error(error) from error
        # The status has been sent: only a cut body can still say that this isn't all.
        logger.warning("%s: log ended early: %s", request.path, error)
        if request.transport is not None:
            request.transport.abort()
    return response


def _as_request_error(error: VkubeletError) -> RequestError:
    match error:
        case RequestError():
            return error
        case StreamInterruptedError():
            return RequestError(503, error.reason)
        case _:
            return RequestError(500, str(error))


def parse_log_options(query: dict[str, list[str]]) -> LogOptions:
    """
    Read and check the options as a kubelet does.

    Raises:
        RequestError: 400 for what can't be read, 422 for what makes no sense, in a kubelet's words.
    """
    values = {name: texts[0] for name, texts in query.items()}
    tail = values.get("tail")  # the name that old clients use
    if tail:
        values["tailLines"] = tail
        if tail == "all":
            del values["tailLines"]
    try:
        options = LogOptions(
            follow=_parse_bool(values, "follow"),
            previous=_parse_bool(values, "previous"),
            timestamps=_parse_bool(values, "timestamps"),
            tail_lines=_parse_integer(values, "tailLines"),
            since_seconds=_parse_integer(values, "sinceSeconds"),
            since_time=_parse_time(values.get("sinceTime", "")),
            limit_bytes=_parse_integer(values, "limitBytes"),
        )
    except ValueError as error:
        raise RequestError(400, _UNDECODABLE) from error
    return _check_log_options(options, values.get("stream") or LogStream.ALL)


def _check_log_options(options: LogOptions, stream: str) -> LogOptions:
    makes_no_sense = (
        (options.tail_lines is not None and options.tail_lines < 0)
        or (options.since_seconds is not None and options.since_seconds < 1)
        or (options.limit_bytes is not None and options.limit_bytes < 1)
        or (options.since_seconds is not None and options.since_time is not None)
        or stream not in tuple(LogStream)
        or (stream != LogStream.ALL and options.tail_lines is not None)
    )
    if makes_no_sense:
        raise RequestError(422, _INVALID)
    return LogOptions(
        follow=options.follow,
        previous=options.previous,
        timestamps=options.timestamps,
        tail_lines=options.tail_lines,
        since_seconds=options.since_seconds,
        since_time=options.since_time,
        limit_bytes=options.limit_bytes,
        stream=LogStream(stream),
    )


def _parse_bool(values: dict[str, str], name: str) -> bool:
    """Read a flag as Go's parameter codec does: all but `false` and `0` sets it, even nothing."""
    return name in values and values[name].lower() not in ("false", "0")


def _parse_integer(values: dict[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text):
        raise ValueError(name)
    return int(text)


def _parse_time(text: str) -> datetime | None:
    if not text:
        return None
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(text)
    fraction = match["fraction"]
    if fraction:  # datetime holds microseconds
        text = text.replace(fraction, fraction[:7].ljust(7, "0"))
    return datetime.fromisoformat(text)
