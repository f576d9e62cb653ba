"""
The suite as a program.

`python -m tests.cluster.vk_suite.program` (`make binaries`) builds it unless it's there.
"""

import sys
from pathlib import Path

from tests.cluster.binaries import run_tool
from tests.cluster.go_program import GoProgram

PROGRAM = GoProgram(
    "virtual-kubelet-suite",
    "1.14.1",
    "github.com/virtual-kubelet/virtual-kubelet",
    source=Path(__file__).with_name("main.go"),
    go="1.25.0",
)

if __name__ == "__main__":
    sys.exit(run_tool(PROGRAM.make))
