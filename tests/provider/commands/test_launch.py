"""Running a coroutine to its end."""

import asyncio

import pytest

from provider.commands.launch import run_to_end


def test_gives_what_it_returns() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    assert run_to_end(answer) == 42


def test_raises_what_it_raises() -> None:
    async def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_to_end(fail)
