import asyncio
import time

import pytest

from tests.fakes.virtual_time import VirtualTimeLoop, run_virtual


@pytest.mark.virtual_time
async def test_marker_gives_virtual_time() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    started = time.monotonic()
    await asyncio.sleep(3600)
    assert loop.time() == pytest.approx(3600)
    assert time.monotonic() - started < 5


async def test_without_the_marker_time_is_real() -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)


async def sleep_and_note(seconds: float, notes: list[float]) -> None:
    await asyncio.sleep(seconds)
    notes.append(seconds)


def test_timers_fire_in_order() -> None:
    async def main() -> list[float]:
        notes: list[float] = []
        async with asyncio.TaskGroup() as group:
            for seconds in [3, 0.001, 3600, 3.0001, 1e-9]:
                group.create_task(sleep_and_note(seconds, notes))
        return notes

    assert run_virtual(main()) == [1e-9, 0.001, 3, 3.0001, 3600]


def test_timeouts_are_exact() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.sleep(31)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(30)


def test_clock_stands_still_while_a_thread_works() -> None:
    async def main() -> float:
        async with asyncio.timeout(1):
            await asyncio.to_thread(time.sleep, 0.05)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 0.0


def test_clock_stands_still_while_bytes_are_under_way() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def main() -> float:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, asyncio.timeout(1):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(50):
                writer.write(b"x" * 200_000)
                assert len(await reader.readexactly(200_000)) == 200_000
            writer.close()
            await writer.wait_closed()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 0.0
