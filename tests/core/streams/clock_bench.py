"""The clock of a data node, worked by hand: one file, one write in flight, and a wall to set."""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.node_clock import DataClock
from motet.core.clock.reservation import decode_bound
from motet.core.machine import Replace, Write
from motet.ids import WriteId


class ClockBench:
    """A clock with its disk. Nothing happens by itself, not even the end of a write."""

    def __init__(self, wall_ms: int, file: bytes = b"") -> None:
        self.wall_ms = wall_ms
        #: the durable content of the bound file; empty when there is none
        self.file = file
        self.in_flight: Write | Replace | None = None
        #: how many bounds were written, over all incarnations
        self.writes = 0
        self.start()

    @property
    def bound(self) -> Clock:
        return decode_bound(self.file) if self.file else ZERO

    def start(self) -> None:
        """A new incarnation; what was in flight is gone."""
        self.clock, self.in_flight = DataClock(), None
        self.clock.recover(self.file, self.wall_ms)

    def crash(self, *, kept: bool = False) -> None:
        """Stop without a word and start again; the write in flight is kept or lost."""
        if kept and self.in_flight is not None:
            self.file = self.in_flight.data
        self.start()

    def ask(self, floor: Clock = ZERO) -> Clock | None:
        """The next clock above this one, if there is one already; a bound that is wanted is begun."""
        value = self.clock.tick_above(floor, self.wall_ms)
        self._reserve()
        return value

    def _reserve(self) -> None:
        if self.clock.wants_bound:
            self.writes += 1
            change = self.clock.bound_to_write(WriteId(self.writes), self.wall_ms)
            assert change is None or isinstance(change, Write | Replace)
            self.in_flight = change or self.in_flight
        assert self.clock.invariants() == []

    def written(self) -> None:
        """The write in flight reaches the disk."""
        assert self.in_flight is not None
        self.file, self.in_flight = self.in_flight.data, None
        self.clock.written(self.wall_ms, is_durable=True)
        self._reserve()

    def write_failed(self) -> None:
        assert self.in_flight is not None
        self.in_flight = None
        self.clock.written(self.wall_ms, is_durable=False)
        assert self.clock.invariants() == []

    def tick(self, floor: Clock = ZERO) -> Clock:
        """The next clock, with whatever writes it takes."""
        value = self.ask(floor)
        while value is None:
            self.written()
            value = self.ask(floor)
        while self.in_flight is not None:
            self.written()
        return value
