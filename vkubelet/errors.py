"""
Errors of the generic kubelet.

    VkubeletError
    ├── ComponentExitedError     a component that must run for ever returned
    ├── LeaseLostError           a Lease is another's, or couldn't be renewed in time
    ├── ProviderError            raised by a provider, for one pod
    │   ├── RetryError           passing trouble: tried again with back-off
    │   └── RefusedError         this pod can't run there as it is: Pending, with reason and message
    ├── RequestError             a kubelet API request can't be served
    └── KubeError                an API call failed; the tree is in vkubelet.kube.errors

ShutdownRequested is no error: it unwinds the process's task groups when a signal asks for it.
"""


class VkubeletError(Exception):
    """Root of all errors that this project raises on purpose."""


class ComponentExitedError(VkubeletError):
    """A component that must run until cancelled has returned."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"component {self.name!r} ended on its own"


class LeaseLostError(VkubeletError):
    """A Lease that was ours isn't any more: what it guarded must stop."""


class ProviderError(VkubeletError):
    """A provider couldn't do what it was asked for one pod."""


class RetryError(ProviderError):
    """Passing trouble; the pod controller tries again with back-off."""


class RefusedError(ProviderError):
    """
    The pod can't run behind this provider as it is.

    Attributes:
        reason: CamelCase word for the pod's condition and event.
        message: One sentence for the user.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class RequestError(VkubeletError):
    """
    A kubelet API request can't be served; raised before the first byte of an answer.

    Attributes:
        code: HTTP status for the caller.
        message: The kubelet's own sentence where there is one: tools parse them.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class ShutdownRequested(Exception):  # noqa: N818 - not an error: the order to stop
    """The process was asked to stop."""
