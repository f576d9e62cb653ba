"""Writes the charts' schemas, and packages the charts into `dist`: `make charts`."""

import subprocess
import sys
from pathlib import Path

from tests.charts.rendering import HOME, REMOTE
from tests.charts.values_schema import render
from tests.cluster.go_program import ProgramMissingError
from tests.cluster.helm import PROGRAM

DIST = Path(__file__).parents[2] / "dist"


def main() -> int:
    """Do it; helm itself says what it made, or why not."""
    for file, text in render():
        file.write_text(text, encoding="utf-8")
    try:
        helm = PROGRAM.locate()
    except ProgramMissingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    command = [str(helm), "package", str(HOME), str(REMOTE), f"--destination={DIST}"]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
