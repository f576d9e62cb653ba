import asyncio
import os
import signal
import sys
import uuid
from pathlib import Path

import tests
from tests.cluster.process_nodes import reaper
from tests.cluster.process_nodes.reaper import MARKER_VARIABLE, find_marked

# Starts a container, says so, and waits to be killed.
PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.process_nodes.running import build_container, build_pod, run_provider

async def main():
    async with run_provider(Path(sys.argv[1])) as running:
        pod = build_pod(build_container("sleep 600 & setsid sleep 600 & wait"))
        ref = await running.start(pod)
        await running.wait_phase(ref, "Running")
        print(running.provider.marker, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_nothing_survives_the_process_nodes(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(tests.__file__).parents[1],
        start_new_session=True,
    )
    assert process.stdout is not None
    async with asyncio.timeout(15):
        marker = (await process.stdout.readline()).decode().strip()
        while len(find_marked(marker)) < 3:
            await asyncio.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        while find_marked(marker):
            await asyncio.sleep(0.01)


async def test_only_what_is_marked_is_killed() -> None:
    markers = [f"{uuid.uuid4()}/{number}" for number in range(2)]
    first, second = [
        await asyncio.create_subprocess_exec(
            *("sleep", "600"), env={"PATH": os.environ["PATH"], MARKER_VARIABLE: marker}
        )
        for marker in markers
    ]
    try:
        reaper.kill_marked(markers[0])
        assert await first.wait() == -signal.SIGKILL
        assert find_marked(markers[1]) == [second.pid]
    finally:
        second.kill()
        await second.wait()
