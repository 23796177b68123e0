"""Who waits for an answer, and giving up on it: in time, or when it is not worth waiting for any more.

One timer for all that is waited for, set for whoever is due next: nearly all answers come long before
anybody doubts, and cost nothing here but a place in a dict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from motet.errors import MotetError, OutcomeUnknown
from motet.ids import Address

doubt_seconds = 0.25
"""After so long without an answer it is asked whether it is worth waiting on."""

IsWorth = Callable[[], Awaitable[bool]]
never = float("inf")

Answer = TypeVar("Answer")


class Waiter(Generic[Answer]):
    """Somebody who waits for an answer."""

    __slots__ = ("deadline", "doubts_at", "future", "is_worth", "looking", "node")

    def __init__(
        self,
        node: Address,
        future: asyncio.Future[Answer],
        deadline: float,
        doubts_at: float,
        is_worth: IsWorth | None,
    ) -> None:
        self.node = node
        self.future = future
        self.deadline = deadline
        self.doubts_at = doubts_at
        self.is_worth = is_worth
        self.looking: asyncio.Task[None] | None = None

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Patience(Generic[Answer]):
    """Of one link."""

    def __init__(self) -> None:
        #: request -> who waits for its answer
        self.waiters: dict[int, Waiter[Answer]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = never

    def begin(
        self,
        request: int,
        node: Address,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        is_worth: IsWorth | None,
    ) -> asyncio.Future[Answer]:
        """From here on time counts."""
        future: asyncio.Future[Answer] = loop.create_future()
        now = loop.time()
        deadline = now + seconds
        doubts_at = never if is_worth is None else now + doubt_seconds
        self.waiters[request] = Waiter(node, future, deadline, doubts_at, is_worth)
        due = min(deadline, doubts_at)
        if due < self._alarm_at:
            self._ring_by(loop, due)
        return future

    def end(self, request: int) -> Waiter[Answer] | None:
        """There is an answer, or nobody waits for it; whoever waited for it."""
        waiter = self.waiters.pop(request, None)
        if waiter is not None and waiter.looking is not None:
            waiter.looking.cancel()
        return waiter

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
        for request, waiter in list(self.waiters.items()):
            if waiter.future.done():  # whoever waited was cancelled
                self.end(request)
                continue
            if waiter.deadline <= now:
                self.end(request)
                waiter.fail(TimeoutError())
                continue
            if waiter.doubts_at <= now:
                waiter.doubts_at = never
                waiter.looking = loop.create_task(self._look(waiter))
            due = min(due, waiter.deadline, waiter.doubts_at)
        if due < never:
            self._ring_by(loop, due)

    async def _look(self, waiter: Waiter[Answer]) -> None:
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
