"""The garbage collector is told of what stays."""

import subprocess
import sys

CODE = """
import gc
from provider.collector import THRESHOLDS, calm_collector, set_known_aside
calm_collector()
assert gc.get_threshold() == THRESHOLDS and gc.isenabled()
set_known_aside()
assert gc.get_freeze_count() > 1000
print("ok")
"""


def test_it_runs_less_often_and_leaves_what_is_known_alone() -> None:
    command = [sys.executable, "-c", CODE]  # it's the whole process's
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"ok\n"
