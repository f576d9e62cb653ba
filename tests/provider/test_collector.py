"""The garbage collector is told of what stays, the system gets back what is free."""

import platform
import subprocess
import sys

import pytest

CODE = """
import gc
from provider.collector import THRESHOLDS, calm_collector, set_known_aside
calm_collector()
assert gc.get_threshold() == THRESHOLDS and gc.isenabled()
set_known_aside()
assert gc.get_freeze_count() > 1000
print("ok")
"""

PEAK = """
import ctypes
from pathlib import Path
from provider.collector import give_back

def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

blocks = [bytes(16 * 1024) for _ in range(2000)]
kept = bytes(16 * 1024)  # at the heap's end, so that it can't shrink by itself
del blocks
before = resident()
give_back()
print(before - resident())
"""


def test_it_runs_less_often_and_leaves_what_is_known_alone() -> None:
    command = [sys.executable, "-c", CODE]  # it's the whole process's
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"ok\n"


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries can't, and are left alone"
)
def test_free_memory_goes_back() -> None:
    command = [sys.executable, "-c", PEAK]
    returned = int(subprocess.run(command, capture_output=True, check=True).stdout)
    assert returned > 20 * 2**20
