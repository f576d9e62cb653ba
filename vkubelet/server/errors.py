"""
Errors of the kubelet API's server.

    VkubeletError
    ├── ListenError                 the port can't be had
    ├── ServingCertificateError     certificate or client CA can't be used
    └── StreamInterruptedError      a stream is to end before its time

What a caller of the API did wrong is a `RequestError`; `respond_text` and `respond_status` turn it
into an answer.
"""

from aiohttp import web

from vkubelet.errors import RequestError, VkubeletError
from vkubelet.streaming.channels import build_failure


class ListenError(VkubeletError):
    """The address can't be listened on; the message names it."""


class ServingCertificateError(VkubeletError):
    """A certificate or a client CA can't be used; what was in force stays so."""


class StreamInterruptedError(VkubeletError):
    """
    A stream is to end before its time.

    Attributes:
        reason: Why, for the user or the log.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


def respond_text(error: RequestError) -> web.Response:
    """Answer in plain text, as kubelets do: the API server shows it as it is."""
    return web.Response(status=error.code, text=error.message, content_type="text/plain")


def respond_status(error: RequestError) -> web.Response:
    """Answer a failed upgrade by a JSON `Status`, whose message reaches the user on every way."""
    return web.json_response(build_failure(error.code, error.message), status=error.code)
