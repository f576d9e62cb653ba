"""
`make bench`: figures that are promised, measured.

    python -m tests.bench [nodes] [ledger] [streams] [pods] [startup] [real] [soak]

All but soak by default. The figures go to build/bench.json (those of soak alone, to
build/soak.json), too. It ends with 1 if a target isn't met, or if something
didn't do what it should.

QUICK=1 measures less, in less time, and is made for busy machines: targets are shown, but only what
no noise explains ends it with 1: wrong results, a steady figure (memory) above its target, any
other above ten times that.
"""

import asyncio
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from rich.console import Console
from rich.table import Table

from tests.bench import ledger, nodes, pods, real, soak, startup, streams
from tests.bench.figures import BenchError, Figure
from tests.cluster.errors import ClusterError

RESULTS = Path(__file__).parents[2] / "build"


class Bench(Protocol):
    """A module's `run`."""

    async def __call__(self, *, quick: bool) -> list[Figure]:
        """Measure; less of it if it's to be quick."""


BENCHES: Mapping[str, Bench] = {
    "nodes": nodes.run,
    "ledger": ledger.run,
    "streams": streams.run,
    "pods": pods.run,
    "startup": startup.run,
    "real": real.run,
    "soak": soak.run,
}
APART = {"soak"}
"""Take their time: they are run when they're named."""


def show(console: Console, figures: Sequence[Figure]) -> None:
    """Print the figures."""
    table = Table()
    for name in ("bench", "figure"):
        table.add_column(name)
    for name in ("measured", "target"):
        table.add_column(name, justify="right")
    table.add_column("met")
    bench = ""
    for item in figures:
        met = "" if item.target is None else "yes" if item.is_met else "[red]no"
        shown = "" if item.bench == bench else item.bench
        bench = item.bench
        table.add_row(shown, item.name, f"{item.value:.3g} {item.unit}", item.shown_target, met)
    console.print(table)


def write(file: Path, figures: Sequence[Figure], *, quick: bool) -> None:
    """Write the figures and what they were measured on."""
    file.parent.mkdir(exist_ok=True)
    content = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "load": os.getloadavg()[0],
        },
        "quick": quick,
        "figures": [item.encode() for item in figures],
    }
    file.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


async def measure(bench: Bench, *, quick: bool) -> list[Figure]:
    """Run one."""
    return await bench(quick=quick)


def find_faults(figures: Sequence[Figure], *, quick: bool) -> list[Figure]:
    """Return the figures that end it with 1."""
    return [item for item in figures if not (item.is_plausible if quick else item.is_met)]


def main(argv: Sequence[str]) -> int:
    """Measure what is named, all of it by default; 1 if a figure is at fault."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    quick = os.environ.get("QUICK", "") not in ("", "0")
    unknown = [name for name in argv if name not in BENCHES]
    if unknown:
        console.print(f"no bench {unknown[0]}: there are {', '.join(BENCHES)}", style="red")
        return 2
    figures: list[Figure] = []
    for name in argv or [name for name in BENCHES if name not in APART]:
        console.print(f"measuring {name} …")
        try:
            figures += asyncio.run(measure(BENCHES[name], quick=quick))
        except (BenchError, ClusterError) as error:
            console.print(str(error), style="red", markup=False)
            return 1
    show(console, figures)
    write(
        RESULTS / ("soak.json" if APART >= set(argv) > set() else "bench.json"),
        figures,
        quick=quick,
    )
    faults = find_faults(figures, quick=quick)
    for item in faults:
        console.print(f"{item.bench}: {item.name} isn't as it should be", style="red", markup=False)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
