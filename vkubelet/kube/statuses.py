"""A failure answer of the API server, turned into the error tree: codes and reasons mapped."""

import email.utils
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from vkubelet.kube import errors

MAX_MESSAGE_CHARACTERS = 1000
"""What is kept of a body that isn't a Status: a proxy's error page can be long."""

_NAMESPACE_ENDS = "is being terminated"
"""Words of the admission of NamespaceLifecycle, which gives no reason of its own."""

_BY_CODE: Mapping[int, type[errors.StatusError]] = {
    400: errors.BadRequestError,
    401: errors.UnauthorizedError,
    403: errors.ForbiddenError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    410: errors.GoneError,
    422: errors.InvalidError,
    429: errors.TooManyRequestsError,
    503: errors.ServerTimeoutError,
    504: errors.ServerTimeoutError,
}

_BY_REASON: Mapping[str, type[errors.StatusError]] = {
    "AlreadyExists": errors.AlreadyExistsError,
    "Expired": errors.GoneError,
    "Gone": errors.GoneError,
    "ServerTimeout": errors.ServerTimeoutError,
    "Timeout": errors.ServerTimeoutError,
    "TooManyRequests": errors.TooManyRequestsError,
}


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct, frozen=True):
    kind: str = ""
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def build_status_error(code: int, body: bytes, retry_after: str = "") -> errors.StatusError:
    """
    Turn a failure into its error.

    Args:
        code: The HTTP status; 0 for an ERROR event of a watch, whose Status holds the code.
        body: A Status, or whatever came instead of one.
        retry_after: The Retry-After header, in either of its forms.
    """
    try:
        parsed = _decode_status(body)
        status = _decode_object(body)
    except (msgspec.MsgspecError, RecursionError):
        parsed, status = _Status(), {}
    if parsed.kind != "Status":
        parsed, status = _Status(message=parsed.message or _readable(body)), {}
    code = code or parsed.code or 500
    reason = parsed.reason or ""
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code)
    if kind is None:
        kind = errors.ServerError if code >= 500 else errors.StatusError
    if kind is errors.ForbiddenError and _NAMESPACE_ENDS in (parsed.message or ""):
        kind = errors.NamespaceEndingError
    error = kind(code, reason=reason, message=parsed.message or "", status=status)
    if isinstance(error, errors.TooManyRequestsError):
        seconds = parse_retry_after(retry_after)
        if seconds is None and parsed.details is not None:
            seconds = parsed.details.retry_after_seconds
        if seconds is not None:
            error.retry_after_seconds = max(0.0, seconds)
    return error


def refuse_redirect(code: int) -> errors.StatusError:
    """Build the error for an answer that sends us elsewhere."""
    # Following it would hand credentials or trust to whatever place it names.
    message = "the server redirects, which an API server doesn't"
    return errors.StatusError(code, message=message)


def parse_retry_after(text: str) -> float | None:
    """Seconds that a Retry-After header (a number or a date) asks for, None if it's no use."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(tz=UTC)).total_seconds())


def _readable(body: bytes) -> str:
    text = body[: 4 * MAX_MESSAGE_CHARACTERS].decode(errors="replace")
    return " ".join(text.split())[:MAX_MESSAGE_CHARACTERS]
