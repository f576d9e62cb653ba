"""
The memory of a process that holds many objects for long: garbage collector and allocator.

The collector's full runs look at every object: with 150,000 pods that is half a second each, for
next to no garbage, as what is kept has no cycles.
"""

import ctypes
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


def give_back() -> None:
    """
    Return what is free to the system; for when the peak of the start is over.

    It leaves some 10 MiB behind. A C library that can't do that (musl) is left alone.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
