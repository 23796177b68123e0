"""What waits at a node, and is bounded: frames that have come, and what it keeps for the clients of a port.

A node keeps two things for a client that it cannot throw away: answers the client has not taken, and the
beginning of a message the client has not finished. Both have a budget over all connections of a port.

B1  Whoever takes nothing of what waits for it is cut off after ``stalled_seconds_max``; while more than half
    of the budget is in use, after ``stalled_seconds_tight``. To take something is to take
    ``drained_bytes_min``, or all there was.
B2  A message that has begun is there as a whole within ``unfinished_seconds_max``.
B3  When beginnings of messages exceed their budget, those that began first are cut off: a message that is
    really sent is there soon.

Connections between the nodes of a cluster are not clients, and never counted here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Protocol

from motet.format.frame import Frame
from motet.ids import Address
from motet.limits import KIB, inbox_bytes_max, inbox_messages_max
from motet.ports import Delivery

stalled_seconds_max = 20.0
stalled_seconds_tight = 2.0
unfinished_seconds_max = 30.0
drained_bytes_min = 64 * KIB
_look_every_seconds = 0.5


class ClientConnection(Protocol):
    """One that is counted here."""

    @property
    def transport(self) -> asyncio.Transport: ...

    def cut_off(self, why: str) -> None:
        """Close it at once; ``lost`` follows."""


@dataclass(slots=True)
class _Unsent:
    """Bytes that wait for a client."""

    size_bytes: int
    #: all that was ever written
    written_bytes: int
    #: when it was last seen to take something, how much had left by then, and how much had been written
    since: float
    drained_bytes: int = 0
    target_bytes: int = 0


@dataclass(slots=True)
class _Unfinished:
    """The beginning of a message."""

    size_bytes: int
    since: float


class ClientBudget:
    """Of one port. It belongs to the event loop it is used in; ``looked`` is called after each look."""

    def __init__(
        self,
        *,
        unsent_bytes_max: int,
        unfinished_bytes_max: int,
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        self._looked = looked
        self.unsent_bytes_max = unsent_bytes_max
        self._unfinished_bytes_max = unfinished_bytes_max
        self._unsent: dict[ClientConnection, _Unsent] = {}
        #: the one that began first is first
        self._unfinished: dict[ClientConnection, _Unfinished] = {}
        self._alarm: asyncio.TimerHandle | None = None
        #: as of the last look, and what was written since
        self.unsent_bytes = 0
        self.unfinished_bytes = 0

    def unsent_of(self, connection: ClientConnection) -> int:
        """Bytes that wait for it, as of the last look."""
        unsent = self._unsent.get(connection)
        return 0 if unsent is None else unsent.size_bytes

    def wrote(self, connection: ClientConnection, size_bytes: int) -> None:
        """So many bytes were given to its transport just now."""
        unsent = self._unsent.get(connection)
        if unsent is None:
            unsent = self._unsent[connection] = _Unsent(0, 0, self._now(), 0, size_bytes)
        unsent.size_bytes += size_bytes
        unsent.written_bytes += size_bytes
        self.unsent_bytes += size_bytes

    def keeps(self, connection: ClientConnection, size_bytes: int, *, is_whole: bool) -> None:
        """So many bytes of an unfinished message of it are kept now; the last one ``is_whole`` (B2, B3)."""
        if is_whole:
            self._finished(connection)
        unfinished = self._unfinished.get(connection)
        if unfinished is None:
            if not size_bytes:
                return
            unfinished = self._unfinished[connection] = _Unfinished(0, self._now())
        self.unfinished_bytes += size_bytes - unfinished.size_bytes
        unfinished.size_bytes = size_bytes
        if not size_bytes:
            del self._unfinished[connection]
        while self.unfinished_bytes > self._unfinished_bytes_max:
            self._cut_off(next(iter(self._unfinished)), "unfinished")

    def _finished(self, connection: ClientConnection) -> None:
        unfinished = self._unfinished.pop(connection, None)
        if unfinished is not None:
            self.unfinished_bytes -= unfinished.size_bytes

    def lost(self, connection: ClientConnection) -> None:
        """It is gone."""
        self._finished(connection)
        unsent = self._unsent.pop(connection, None)
        if unsent is not None:
            self.unsent_bytes -= unsent.size_bytes

    def look(self) -> None:
        """See what has left by now, and cut off whoever takes nothing (B1, B2)."""
        now = self.measure()
        is_tight = 2 * self.unsent_bytes > self.unsent_bytes_max
        patience = stalled_seconds_tight if is_tight else stalled_seconds_max
        for connection, unsent in list(self._unsent.items()):
            if now - unsent.since > patience:
                self._cut_off(connection, "stalled")
        for connection, unfinished in list(self._unfinished.items()):
            if now - unfinished.since > unfinished_seconds_max:
                self._cut_off(connection, "unfinished")

    def measure(self) -> float:
        """See what has left by now; when that is."""
        now = self._now()
        for connection, unsent in list(self._unsent.items()):
            self._measure(connection, unsent, now)
        return now

    def _measure(self, connection: ClientConnection, unsent: _Unsent, now: float) -> None:
        waiting = connection.transport.get_write_buffer_size()
        self.unsent_bytes += waiting - unsent.size_bytes
        unsent.size_bytes = waiting
        if not waiting:
            del self._unsent[connection]
            return
        drained = unsent.written_bytes - waiting
        if drained >= min(unsent.target_bytes, unsent.drained_bytes + drained_bytes_min):
            unsent.drained_bytes, unsent.target_bytes = drained, unsent.written_bytes
            unsent.since = now

    def _cut_off(self, connection: ClientConnection, why: str) -> None:
        self.lost(connection)
        connection.cut_off(why)

    def _now(self) -> float:
        loop = asyncio.get_running_loop()
        if self._alarm is None:
            self._alarm = loop.call_later(_look_every_seconds, self._look_again)
        return loop.time()

    def _look_again(self) -> None:
        self._alarm = None
        if self._unsent or self._unfinished:
            self.look()
        self._looked()

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()


class Inbox:
    """Full above either bound, and then full until half of it has been taken.

    Being full refuses nothing: what a socket had in store still comes in, at most one read's worth for
    each connection. ``wake`` is called when something comes into an empty inbox, ``set_full`` whenever
    ``is_full`` changes. Frames of the kinds in ``bulk`` are taken after all others.
    """

    __slots__ = ("_bulk", "_bytes", "_deliveries", "_first", "_set_full", "_wake", "bytes_in",
                 "frames_in", "is_full")  # fmt: skip

    def __init__(
        self,
        wake: Callable[[], None],
        set_full: Callable[[bool], None],
        bulk: frozenset[int] = frozenset(),
    ) -> None:
        self._wake = wake
        self._set_full = set_full
        self._bulk = bulk
        #: those that go first, if there are kinds that do not
        self._first: deque[Delivery] = deque()
        self._deliveries: deque[Delivery] = deque()
        self._bytes = 0
        self.is_full = False
        self.frames_in = 0
        self.bytes_in = 0

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._deliveries) + len(self._first)

    def put(self, sender: Address, frames: list[Frame], size_bytes: int) -> None:
        """Frames have come in; on the wire they were so many bytes."""
        self.frames_in += len(frames)
        self.bytes_in += size_bytes
        deliveries, bulk = self._deliveries, self._bulk
        was_empty = not deliveries and not self._first
        if not bulk:
            deliveries.extend(map(Delivery, repeat(sender), frames))
        else:
            for frame in frames:
                (deliveries if frame.kind in bulk else self._first).append(Delivery(sender, frame))
        self._bytes += size_bytes
        if self.count > inbox_messages_max or self._bytes > inbox_bytes_max:
            self._become_full(True)
        if was_empty:
            self._wake()

    def take(self, limit: int) -> list[Delivery]:
        """At most so many: those that go first, then the oldest."""
        before = self.count
        taken = _take(self._first, limit) if self._first else []
        taken += _take(self._deliveries, limit - len(taken))
        left = before - len(taken)
        # By share, not by size: near enough to decide when to read again.
        self._bytes = self._bytes * left // before if left else 0
        if self.is_full and left <= inbox_messages_max // 2 and self._bytes <= inbox_bytes_max // 2:
            self._become_full(False)
        return taken

    def _become_full(self, is_full: bool) -> None:
        if is_full != self.is_full:
            self.is_full = is_full
            self._set_full(is_full)


def _take(waiting: deque[Delivery], limit: int) -> list[Delivery]:
    if len(waiting) <= limit:
        taken = list(waiting)
        waiting.clear()
        return taken
    return [waiting.popleft() for _ in range(limit)]
