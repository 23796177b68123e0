"""The timers of one machine: each name runs at most once, and moving one is cheap.

A heap of due times with lazy deletion: moving or cancelling a timer leaves its old entry behind. A timer
that was moved back goes on when that entry comes up, so a machine that moves its election timer with each
message costs nothing but a number; other entries are skipped then, and swept out when they are the
majority, so memory stays in proportion to what runs.

Timers that recur fall into step: each is due at a multiple of its period, so that those of all machines of a
node fire in the same turns, and what they send to a peer arrives there together. An idle node wakes seldom.
"""

from __future__ import annotations

import heapq

from motet.core.machine import NS_PER_MS
from motet.ids import TimerName
from motet.limits import timers_max

_SWEEP_AT = 64


class Timers:
    """What runs and when it is due, on the node's monotonic clock."""

    __slots__ = ("_due_ns", "_listed_ns", "heap")

    def __init__(self) -> None:
        self._due_ns: dict[TimerName, int] = {}
        #: no timer is due before the first of these; drivers look at it each turn, so without a call
        self.heap: list[tuple[int, TimerName]] = []
        #: the earliest entry of each timer in the heap
        self._listed_ns: dict[TimerName, int] = {}

    def __len__(self) -> int:
        return len(self._due_ns)

    def set(self, timer: TimerName, now_ns: int, after_ms: int, *, in_step: bool = False) -> None:
        """Start the timer, or move it if it runs; ``in_step`` with all others of its period."""
        after_ns = after_ms * NS_PER_MS
        due_ns = now_ns + after_ns
        if in_step and after_ns:
            due_ns = (due_ns + after_ns // 2) // after_ns * after_ns
        self._due_ns[timer] = due_ns
        assert len(self._due_ns) <= timers_max, f"more than {timers_max} timers run at once"
        listed_ns = self._listed_ns.get(timer)
        if listed_ns is None or due_ns < listed_ns:
            self._list(timer, due_ns)

    def cancel(self, timer: TimerName) -> None:
        """Forget the timer if it runs."""
        self._due_ns.pop(timer, None)

    def pop_due(self, now_ns: int) -> TimerName | None:
        """The timer that is due longest, which then no longer runs; None when none is due."""
        if not self.heap or self.heap[0][0] > now_ns:
            return None
        due_ns = self.next_due_ns()
        if due_ns is None or due_ns > now_ns:
            return None
        _, timer = heapq.heappop(self.heap)
        del self._listed_ns[timer], self._due_ns[timer]
        return timer

    def next_due_ns(self) -> int | None:
        """When the next timer is due, None when none runs."""
        while self.heap:
            listed_ns, timer = self.heap[0]
            due_ns = self._due_ns.get(timer)
            if listed_ns == due_ns:
                return due_ns
            heapq.heappop(self.heap)
            if self._listed_ns.get(timer) == listed_ns:
                del self._listed_ns[timer]
                if due_ns is not None:
                    self._list(timer, due_ns)  # it was moved back
        return None

    def _list(self, timer: TimerName, due_ns: int) -> None:
        self._listed_ns[timer] = due_ns
        heapq.heappush(self.heap, (due_ns, timer))
        if len(self.heap) > 2 * len(self._due_ns) + _SWEEP_AT:
            self._sweep()

    def _sweep(self) -> None:
        self._listed_ns = dict(self._due_ns)
        self.heap = [(due_ns, timer) for timer, due_ns in self._due_ns.items()]
        heapq.heapify(self.heap)
