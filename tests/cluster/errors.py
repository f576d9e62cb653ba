"""Failures of the test clusters."""


class ClusterError(Exception):
    """A test cluster didn't start, or a kubectl call failed; the text shows the output."""
