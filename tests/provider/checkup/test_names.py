"""The names that the command line knows are the checks there are."""

from provider.checkup.checks import CHECKS
from provider.checkup.names import HOME_API, NAMES, POD, REMOTE_API


def test_in_this_order() -> None:
    assert (HOME_API, REMOTE_API, *CHECKS, POD) == NAMES
