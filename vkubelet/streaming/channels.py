"""
What the streams of a remote command carry: exit status, terminal sizes, WebSocket messages.

A WebSocket message is a channel byte and data; v5 adds `FF <channel>`: half-close. The base64
protocols have a digit and base64 instead.
"""

import base64
import binascii
import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PROTOCOL_V1 = "channel.k8s.io"
PROTOCOL_V2 = "v2.channel.k8s.io"
PROTOCOL_V3 = "v3.channel.k8s.io"
PROTOCOL_V4 = "v4.channel.k8s.io"
PROTOCOL_V5 = "v5.channel.k8s.io"
PROTOCOL_BASE64_V1 = "base64.channel.k8s.io"
PROTOCOL_BASE64_V4 = "v4.base64.channel.k8s.io"

BASE64_PROTOCOLS = (PROTOCOL_BASE64_V1, PROTOCOL_BASE64_V4)
"""Their messages are text."""

PROTOCOLS_WITH_JSON_STATUS = (PROTOCOL_V4, PROTOCOL_V5, PROTOCOL_BASE64_V4)
"""Others tell failures in plain text, and success by silence."""

MAX_RESIZE_BUFFER_BYTES = 4 * 1024
"""Cap of a terminal size that isn't complete yet; one takes 30 bytes."""

MAX_EXIT_CODE = 255
"""Go clients read the exit code as 8 bits."""


class Channel(enum.IntEnum):
    """Channel bytes of a WebSocket message."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


def encode_message(channel: Channel, data: bytes) -> bytes:
    """Build a binary message that carries data."""
    return bytes((channel,)) + data


def encode_close(channel: Channel) -> bytes:
    """Build the message that half-closes a channel (v5 only)."""
    return bytes((Channel.CLOSE, channel))


def decode_message(message: bytes) -> tuple[Channel, bytes] | None:
    """
    Split a message; for `Channel.CLOSE` the data is the byte of the channel that is closed.

    Returns:
        None for an empty message and for channels that nobody knows: both are ignored.
    """
    if not message:
        return None
    try:
        return Channel(message[0]), message[1:]
    except ValueError:
        return None


class ChannelError(Exception):
    """A peer's message isn't one of its protocol."""


class ChannelDecoder:
    """Reads channel and data of messages that come in parts."""

    def __init__(self, *, is_base64: bool = False) -> None:
        self._is_base64 = is_base64
        self._channel: int | None = None
        self._carry = b""

    def decode(self, data: bytes, *, start: bool, end: bool) -> tuple[int, bytes] | None:
        """
        Take a part of a message.

        Args:
            data: The part.
            start: Whether a message begins here.
            end: Whether it ends here.

        Returns:
            The channel and what has come for it; None as long as the message is empty.

        Raises:
            ChannelError: If it isn't base64.
        """
        if start:
            self._channel = None
            self._carry = b""
        if self._channel is None:
            if not data:
                return None
            self._channel = data[0] - ord("0") if self._is_base64 else data[0]
            data = data[1:]
        if self._is_base64:
            data = self._decode_base64(data, end=end)
        return self._channel, data

    def _decode_base64(self, data: bytes, *, end: bool) -> bytes:
        data = self._carry + data
        size = len(data) - len(data) % 4
        self._carry = data[size:]
        if end and self._carry:
            raise ChannelError("message is cut base64")
        try:
            return base64.b64decode(data[:size], validate=True)
        except binascii.Error as error:
            raise ChannelError("message isn't base64") from error


def encode_channel(channel: int, data: bytes, *, is_base64: bool = False) -> bytes:
    """Build a message for any channel; the base64 kind is text and has ten channels."""
    if is_base64:
        return b"%d%b" % (channel, base64.b64encode(data))
    return bytes((channel,)) + data


@dataclass(frozen=True, slots=True)
class CommandStatus:
    """
    How a command ended.

    Attributes:
        code: 0 to 255; None: it couldn't be run, or its end is unknown.
        message: Why, when code is None.
        http_code: The status of that failure; real kubelets use 500.
    """

    code: int | None
    message: str = ""
    http_code: int = 500


_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def build_failure(http_code: int, message: str) -> dict[str, Any]:
    """Build a `metav1.Status` of a failed request, as the API server passes it on."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(http_code, ""),
        "code": http_code,
    }


def serialize_status(status: CommandStatus) -> bytes:
    """
    Serialize the `Status` that ends a command (v4 and v5), as a real kubelet writes it.

    A code that clients can't read becomes a failure: they would take 256 for something else.
    """
    if status.code == 0:
        return _serialize({"metadata": {}, "status": "Success"})
    if status.code is None:
        failure = build_failure(status.http_code, status.message or "the command's end is unknown")
        del failure["kind"], failure["apiVersion"]
        return _serialize(failure)
    if not 0 < status.code <= MAX_EXIT_CODE:
        message = f"command terminated with exit code {status.code}, which isn't one"
        return serialize_status(CommandStatus(None, message))
    exit_text = str(status.code)
    return _serialize(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {exit_text}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": exit_text}]},
        }
    )


def serialize_status_for(protocol: str, status: CommandStatus) -> bytes:
    """Serialize how a command ended in a protocol's form; maybe nothing for success."""
    if protocol in PROTOCOLS_WITH_JSON_STATUS:
        return serialize_status(status)
    if status.code == 0:
        return b""
    if status.code is None:
        return status.message.encode()
    return f"command terminated with non-zero exit code: exit status {status.code}".encode()


def _serialize(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def parse_status(data: bytes) -> CommandStatus:
    """
    Read what arrived on the error channel, whole.

    Nothing at all isn't success, whatever Go clients make of it: the far side was cut off.
    """
    if not data:
        return CommandStatus(None, "the stream ended without an exit status")
    try:
        status = json.loads(data)
    except (ValueError, RecursionError):
        return CommandStatus(None, data.decode("utf-8", "replace").strip())
    match status:
        case {"status": "Success"}:
            return CommandStatus(0)
        case {"status": "Failure", "reason": "NonZeroExitCode"}:
            return _parse_exit_code(status)
        case {"status": "Failure"}:
            http_code = status.get("code")
            return CommandStatus(
                None,
                str(status.get("message") or "unknown error"),
                http_code if isinstance(http_code, int) and 400 <= http_code < 600 else 500,
            )
        case _:
            text = data[:200].decode("utf-8", "replace")
            return CommandStatus(None, f"unreadable exit status: {text}")


def _parse_exit_code(status: dict[str, Any]) -> CommandStatus:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
            text = str(cause.get("message"))
            if text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= MAX_EXIT_CODE:
                return CommandStatus(int(text))
            return CommandStatus(None, f"invalid exit code value {text[:20]!r}")
    return CommandStatus(None, "exit status without an exit code")


def serialize_resize(width: int, height: int) -> bytes:
    """Serialize a terminal size for the resize stream or channel."""
    return b'{"Width":%d,"Height":%d}\n' % (width, height)


class ResizeParser:
    """Reads terminal sizes: JSON objects one after another, cut anywhere."""

    def __init__(self) -> None:
        self._buffer = b""
        self._broken = False
        self._decoder = json.JSONDecoder()

    def receive_data(self, data: bytes) -> list[tuple[int, int]]:
        """Return the (width, height) pairs that `data` completes; none after rubbish."""
        if self._broken:
            return []
        self._buffer += data
        sizes: list[tuple[int, int]] = []
        text = self._buffer.decode("latin-1").lstrip()
        while text:
            try:
                value, end = self._decoder.raw_decode(text)
            except (ValueError, RecursionError):
                break
            size = _parse_size(value)
            if size is not None:
                sizes.append(size)
            text = text[end:].lstrip()
        self._buffer = text.encode("latin-1")
        if len(self._buffer) > MAX_RESIZE_BUFFER_BYTES:
            self._broken = True
            self._buffer = b""
        return sizes


def _parse_size(value: object) -> tuple[int, int] | None:
    match value:
        case {"Width": int(width), "Height": int(height)} if (
            0 <= width <= 0xFFFF and 0 <= height <= 0xFFFF and (width or height)
        ):
            return width, height
        case _:
            return None


def negotiate_protocol(offered: Sequence[str], served: Sequence[str]) -> str | None:
    """Return the first protocol of the client's list that we serve, None if there is none."""
    return next((protocol for protocol in offered if protocol in served), None)
