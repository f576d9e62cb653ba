"""
Errors of the streaming protocols.

    VkubeletError
    └── LocalProtocolError       we called a protocol in a way its state doesn't allow

What a peer does wrong never raises: it becomes a last event and, where the protocol has one, a
farewell to send.
"""

from vkubelet.errors import VkubeletError


class LocalProtocolError(VkubeletError):
    """Our own misuse of a protocol; nothing was sent and its state is unchanged."""
