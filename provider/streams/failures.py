"""What the remote cluster refuses, in the words of home."""

import logging
import re

from vkubelet.errors import RequestError
from vkubelet.kube.errors import AccessError, KubeError, StatusError, UpgradeError
from vkubelet.kube.objects import NamespacedName

logger = logging.getLogger(__name__)

_PREFIX = "Internal error occurred: "
"""Each API server puts it before the text of a 500; home's will do so again."""

_PROTOCOL_REFUSALS = frozenset((400, 403, 404, 405, 426, 501, 502))
"""
What proxies, and servers that don't know a protocol, answer an upgrade by.

An API server refuses the request itself by a Status, which is an answer whatever the protocol.
"""

_NOT_UPGRADED = "Upgrade request required"
"""What an API server says, by a Status, when a proxy has taken the upgrade away."""

_NOT_RUNNING = re.compile(r'container not found \(".*"\)|container \S+ not found in pod \S+')
"""What a kubelet says, by a 500, of a container that doesn't run."""

_REMOTE_DETAILS = (
    # The identity that we are known by there.
    (re.compile(r'^.* is forbidden: User "[^"]*" (?=cannot )'), "vkubelet "),
    # The pod's identity there; home's server names the pod itself.
    (re.compile(r"^error forwarding port \d+ to pod [^,]*, uid [^:]*: "), ""),
    # Nodes and their addresses: what the API server says of its way to a kubelet.
    (re.compile(r'\b(?:Get|Post) "https?://[^"]*": '), ""),
    (re.compile(r'\bnodes "[^"]*" not found'), "the remote node isn't found"),
    (re.compile(r"\blookup \S+(?: on \S+)?:"), "lookup:"),
    (re.compile(r"; known addresses: \[.*\]"), ""),
    (re.compile(r"(?<![\w.])(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b"), "(address)"),
    (re.compile(r"\[(?!::1?\])[0-9a-fA-F:]+:[0-9a-fA-F:]*\](?::\d+)?"), "(address)"),
)


def refuses_protocol(error: KubeError) -> bool:
    """Whether something refused an upgrade's protocol rather than the request."""
    match error:
        case UpgradeError():
            return True
        case StatusError():
            if error.status:
                return error.code == 400 and _NOT_UPGRADED in error.message
            return error.code in _PROTOCOL_REFUSALS
        case _:
            return False


class RemotePod:
    """
    A remote pod as seen from home, where it has the same name in another namespace.

    Attributes:
        key: Its key in the remote cluster.
    """

    def __init__(self, key: NamespacedName, home_namespace: str) -> None:
        self.key = key
        self._home_namespace = home_namespace
        # A namespace may be part of another name: only whole words are it.
        self._pattern = re.compile(rf"(?<![A-Za-z0-9.-]){re.escape(key.namespace)}(?![A-Za-z0-9-])")

    def rewrite(self, text: str) -> str:
        """Put home's namespace where the remote one stands, and take the wrapping off."""
        text = text.removeprefix(_PREFIX)
        return self._pattern.sub(lambda _: self._home_namespace, text)

    def hide(self, text: str) -> str:
        """Put a failure in home's words, without identities and addresses of the remote side."""
        for pattern, replacement in _REMOTE_DETAILS:
            text = pattern.sub(replacement, text)
        return self.rewrite(text)

    def build_error(self, what: str, error: KubeError) -> RequestError:
        """
        Turn a failed call into the answer for the kubelet API's caller.

        400, 404 and 409 are about the pod and keep their sentence, which tools parse; so does 422,
        as a 400, since kubectl shows no text of it, and so does a 500 for a container that doesn't
        run. All else is about the remote cluster and says so, and is logged; as 500, since kubectl
        shows no text of 429 and 503.

        Args:
            what: The subresource, for the log.
            error: What the client raised.
        """
        message = self.hide(error.message) if isinstance(error, StatusError) else ""
        match error:
            case StatusError(code=400 | 404 | 409):
                return RequestError(error.code, message)
            case StatusError(code=422):
                return RequestError(400, message)
            case StatusError() if _NOT_RUNNING.fullmatch(message):
                return RequestError(500, message)
            case _:
                pass  # All else is worth a line in the log.
        logger.warning("%s: %s: %s", self.key, what, error)
        match error:
            case StatusError(code=401):
                text = "the remote cluster doesn't accept the credentials of vkubelet"
            case StatusError(code=403):
                return RequestError(403, f"the remote cluster refuses: {message}")
            case StatusError():
                text = f"the remote cluster fails: {message or error.reason or error.code}"
            case AccessError():
                text = "the credentials for the remote cluster can't be used"
            case _:
                text = "the remote cluster can't be reached"
        return RequestError(500, text)
