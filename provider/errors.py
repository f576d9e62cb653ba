"""
Errors of the process; each ends it with one line.

    ConfigError             exit code 2: a flag, key or variable is wrong
    StartError              exit code 1: what was configured can't work
    └── MissingRightsError  an identity lacks rights
"""

from collections.abc import Sequence

from vkubelet.errors import VkubeletError


class ConfigError(VkubeletError):
    """The configuration can't be used; the message names the flag, key or variable."""


class StartError(VkubeletError):
    """What was configured can't work; a retry wouldn't help."""


class MissingRightsError(StartError):
    """
    An identity lacks rights.

    Attributes:
        cluster: "home" or "remote".
        rights: What is missing, such as "list pods".
        advice: How to do without, "" if there is no way.
    """

    def __init__(self, cluster: str, rights: Sequence[str], advice: str = "") -> None:
        super().__init__(cluster, tuple(rights), advice)
        self.cluster = cluster
        self.rights = tuple(rights)
        self.advice = advice

    def __str__(self) -> str:
        text = f"the {self.cluster} credentials lack these rights: {', '.join(self.rights)}"
        return f"{text}; {self.advice}" if self.advice else text
