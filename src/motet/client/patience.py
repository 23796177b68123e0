"""Giving up on answers: in time, or when they are not worth waiting for any more.

One timer for all that is waited for, set for whoever is due next: nearly all answers come long before
anybody doubts, and cost nothing here but a place in a dict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from motet.errors import MotetError, OutcomeUnknown

doubt_seconds = 0.25
"""After so long without an answer it is asked whether it is worth waiting on."""

IsWorth = Callable[[], Awaitable[bool]]
never = float("inf")


class _Waiter:
    """Somebody who waits for an answer."""

    __slots__ = ("deadline", "doubts_at", "future", "is_worth", "looking")

    def __init__(
        self,
        future: asyncio.Future[Any],
        deadline: float,
        doubts_at: float,
        is_worth: IsWorth | None,
    ) -> None:
        self.future = future
        self.deadline = deadline
        self.doubts_at = doubts_at
        self.is_worth = is_worth
        self.looking: asyncio.Task[None] | None = None

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Patience:
    """Of one link."""

    def __init__(self) -> None:
        self._waiters: dict[int, _Waiter] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = never

    def begin(
        self,
        request: int,
        future: asyncio.Future[Any],
        seconds: float,
        is_worth: IsWorth | None,
    ) -> None:
        """From here on time counts."""
        loop = future.get_loop()
        now = loop.time()
        doubts_at = never if is_worth is None else now + doubt_seconds
        deadline = now + seconds
        self._waiters[request] = _Waiter(future, deadline, doubts_at, is_worth)
        due = min(doubts_at, deadline)
        if due < self._alarm_at:
            self._ring_by(loop, due)

    def end(self, request: int) -> None:
        """There is an answer, or nobody waits for it."""
        waiter = self._waiters.pop(request, None)
        if waiter is not None and waiter.looking is not None:
            waiter.looking.cancel()

    def stop(self) -> None:
        """Nobody waits any more."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm, self._alarm_at = None, never

    def _ring_by(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if due < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = due
            self._alarm = loop.call_at(due, self._ring)

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        now, due = loop.time(), never
        self._alarm, self._alarm_at = None, never
        for waiter in self._waiters.values():
            if waiter.deadline <= now:
                waiter.fail(TimeoutError())
                continue
            if waiter.doubts_at <= now:
                waiter.doubts_at = never
                waiter.looking = loop.create_task(self._look(waiter))
            due = min(due, waiter.deadline, waiter.doubts_at)
        if due < never:
            self._ring_by(loop, due)

    async def _look(self, waiter: _Waiter) -> None:
        assert waiter.is_worth is not None
        try:
            if await waiter.is_worth():
                loop = asyncio.get_running_loop()
                waiter.doubts_at = loop.time() + doubt_seconds
                self._ring_by(loop, waiter.doubts_at)
            else:
                what = "no answer came, and that node is not the one any more"
                waiter.fail(OutcomeUnknown(what))
        except MotetError as error:
            waiter.fail(error)
