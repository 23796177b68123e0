"""Calls of a client that have begun and not ended: closing waits for them."""

from __future__ import annotations

import asyncio
from types import TracebackType


class UnderWay:
    """Counts calls, each for the length of a ``with`` block. One may ask several nodes, one after another."""

    def __init__(self) -> None:
        self._count = 0
        #: somebody waits until there is none
        self._none: asyncio.Event | None = None

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._count -= 1
        if not self._count and self._none is not None:
            self._none.set()

    async def until_none(self, seconds: float) -> None:
        """Wait until all have ended, but no longer than this."""
        if not self._count:
            return
        self._none = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await self._none.wait()
        except TimeoutError:
            return
