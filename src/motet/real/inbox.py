"""Frames that have arrived and wait for a turn, with a bound above which nothing more is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import repeat

from motet.format.frame import Frame
from motet.ids import Address
from motet.limits import inbox_bytes_max, inbox_messages_max
from motet.ports.network import Delivery


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
