"""
Errors of a Kubernetes API call.

    KubeError
    ├── UnreachableError             no usable answer: refused, reset, time-out, TLS
    │   └── UpgradeError             it, or something on the way, doesn't switch protocols
    ├── AccessError                  kubeconfig or credentials unusable (file, context, exec plugin)
    └── StatusError                  the server answered with a Status (any code not named below)
        ├── BadRequestError          400
        ├── UnauthorizedError        401
        ├── ForbiddenError           403
        │   └── NamespaceEndingError nothing is made in a namespace that is being deleted
        ├── NotFoundError            404
        ├── ConflictError            409 reason Conflict
        ├── AlreadyExistsError       409 reason AlreadyExists
        ├── GoneError                410 (Expired, Gone): the resourceVersion is too old
        ├── InvalidError             422
        ├── TooManyRequestsError     429, with retry_after_seconds
        └── ServerError              500 and above
            └── ServerTimeoutError   reason ServerTimeout or Timeout, 503, 504

A caller that retries catches UnreachableError, TooManyRequestsError and ServerError.
"""

from collections.abc import Mapping
from typing import Any

from vkubelet.errors import VkubeletError


class KubeError(VkubeletError):
    """A Kubernetes API call failed."""


class UnreachableError(KubeError):
    """No usable answer came: connection refused or reset, time-out, TLS failure."""


class UpgradeError(UnreachableError):
    """The server, or something on the way to it, doesn't switch to the protocol asked for."""


class AccessError(KubeError):
    """The kubeconfig or the credentials in it can't be used."""


class StatusError(KubeError):
    """
    The API server answered with a failure.

    Attributes:
        status: The `Status` object as it came (an empty one if the body wasn't a Status).
        code: The HTTP status code.
        reason: The `Status` reason, "" if there is none.
        message: The `Status` message, or the body's text.
    """

    def __init__(
        self,
        code: int,
        *,
        reason: str = "",
        message: str = "",
        status: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message
        self.status: Mapping[str, Any] = status if status is not None else {}

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}".strip(": ")


class BadRequestError(StatusError):
    """400: the server couldn't understand the request."""


class UnauthorizedError(StatusError):
    """401: the credentials aren't (or are no longer) valid."""


class ForbiddenError(StatusError):
    """403: the identity lacks a right, or admission refused."""


class NamespaceEndingError(ForbiddenError):
    """403: nothing can be made in a namespace that is being deleted."""


class NotFoundError(StatusError):
    """404: there is no such object or resource."""


class ConflictError(StatusError):
    """409: the object changed meanwhile, or a precondition failed."""


class AlreadyExistsError(StatusError):
    """409: an object of that name is there."""


class GoneError(StatusError):
    """410: the resourceVersion or continue token is too old; list again."""


class InvalidError(StatusError):
    """422: the object fails validation."""


class TooManyRequestsError(StatusError):
    """429: come again after `retry_after_seconds` (also an eviction that a budget refuses)."""

    retry_after_seconds: float = 1.0


class ServerError(StatusError):
    """500 and above: the server failed; worth a retry."""


class ServerTimeoutError(ServerError):
    """503, 504 or reason ServerTimeout/Timeout: the server couldn't finish in time."""
