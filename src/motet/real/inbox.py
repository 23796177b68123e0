"""Frames that have arrived and wait for a turn, with a bound above which nothing more is read."""

from __future__ import annotations

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
    ``is_full`` changes.
    """

    __slots__ = ("_bytes", "_deliveries", "_set_full", "_wake", "bytes_in", "frames_in", "is_full")

    def __init__(self, wake: Callable[[], None], set_full: Callable[[bool], None]) -> None:
        self._wake = wake
        self._set_full = set_full
        self._deliveries: list[Delivery] = []
        self._bytes = 0
        self.is_full = False
        self.frames_in = 0
        self.bytes_in = 0

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._deliveries)

    def put(self, sender: Address, frames: list[Frame], size_bytes: int) -> None:
        """Frames have come in; on the wire they were so many bytes."""
        self.frames_in += len(frames)
        self.bytes_in += size_bytes
        deliveries = self._deliveries
        was_empty = not deliveries
        deliveries += map(Delivery, repeat(sender), frames)
        self._bytes += size_bytes
        if len(deliveries) > inbox_messages_max or self._bytes > inbox_bytes_max:
            self._become_full(True)
        if was_empty:
            self._wake()

    def take(self, limit: int) -> list[Delivery]:
        """The oldest, at most so many."""
        taken = self._deliveries
        if len(taken) <= limit:
            self._deliveries = []
            self._bytes = 0
        else:
            rest = self._deliveries = taken[limit:]
            # By share, not by size: near enough to decide when to read again.
            self._bytes = self._bytes * len(rest) // len(taken)
            del taken[limit:]
        if self.is_full and self._is_half_empty():
            self._become_full(False)
        return taken

    def _is_half_empty(self) -> bool:
        few = len(self._deliveries) <= inbox_messages_max // 2
        return few and self._bytes <= inbox_bytes_max // 2

    def _become_full(self, is_full: bool) -> None:
        if is_full != self.is_full:
            self.is_full = is_full
            self._set_full(is_full)
