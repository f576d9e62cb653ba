"""
Errors of the node mapping.

    MappingError    the mapping can't be used as it's configured, or a plugin misbehaves
"""

from vkubelet.errors import VkubeletError


class MappingError(VkubeletError):
    """The mapping can't be used; the message says what to change."""
