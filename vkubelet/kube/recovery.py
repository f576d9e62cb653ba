"""Telling those who wait out a back-off that the API server answers again."""

import asyncio


class Recovery:
    """
    Whether an API server's last answer was a failure of its own, and when that is over.

    One caller that gets an answer, such as a probe, spares all others the rest of their back-off.
    """

    def __init__(self) -> None:
        self._failed = False
        self._recovered = asyncio.Event()

    def note_failure(self) -> None:
        """Take in that the server couldn't be reached, or failed."""
        self._failed = True

    def note_answer(self) -> None:
        """Take in that the server did what it was asked for."""
        if self._failed:
            self._failed = False
            self._recovered.set()
            self._recovered = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next answer after a failure."""
        await self._recovered.wait()
