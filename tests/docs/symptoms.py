"""The symptoms that docs/troubleshooting.md tells of."""

import re
from collections.abc import Mapping

from tests.docs.commands import REPOSITORY

PAGE = REPOSITORY / "docs" / "troubleshooting.md"

FROM_ELSEWHERE: Mapping[str, str] = {
    "i/o timeout": "Go's words, when packets are lost on the way",
    "no route to host": "the system's words",
    "CrashLoopBackOff": "a kubelet's word; home has none in these tests",
    "0/1": "kubectl's column of a pod",
    "exists and cannot be imported into the current release": "tests/cluster/charts sees it",
    "Forbidden (user=": "tests/cluster/product sees it",
    "RemoteUnreachable": "tests/cluster/removal sees it",
    "NodeNameTaken": "tests/vkubelet/node sees it",
}
"""Words that aren't provoked by the test of this page, and where they come from."""


def read_symptoms() -> list[str]:
    """Read the words of all headings."""
    headings = re.findall(r"^### (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [words for heading in headings for words in re.findall(r"`([^`]+)`", heading)]
