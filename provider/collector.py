"""
The garbage collector of a process that holds many objects for long.

Its full runs look at every object: with 150,000 pods that is half a second each, for next to no
garbage, as what is kept has no cycles.
"""

import gc

THRESHOLDS = (50_000, 20, 100)
"""Far fewer runs than by default; what they miss meanwhile is small."""


def calm_collector() -> None:
    """Let it run less often; for the start, when much comes that stays."""
    gc.set_threshold(*THRESHOLDS)


def set_known_aside() -> None:
    """Have it never look again at what there is now; for when all is synced."""
    gc.collect()
    gc.freeze()
