"""The latest change of each key of a shard, as far as it is remembered: for ``txn.get`` and its validation.

Y1  A key that is remembered is remembered with its newest change, raw records being changes too.
Y2  ``forgotten`` is at or above the clock of the newest change of every key that is not remembered. While it
    is zero, a key that is not there has never been changed.
Y3  Keys are in the order of the log, by where their newest change lies. Compacting it moves it to the end,
    and changes nothing else about it: not if there is a newer one, and again if it is compacted twice.

A shard that nobody ever used in a transaction must not pay for it: beyond ``raw_keys_max`` keys of raw
records it remembers none, until the first transaction comes. With transactions, up to ``latest_keys_max`` are
remembered, those that were changed or compacted last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.ids import Offset
from motet.limits import latest_keys_max, raw_keys_max


class Latest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The newest change of a key."""

    clock: Clock
    #: the entry that holds it, and which of its records or changes it is
    entry: Offset
    place: int


class LatestChanges(msgspec.Struct, rename={"compacted": "carried"}):
    """Keys, in the order of the log (Y3)."""

    keys: dict[bytes, Latest] = msgspec.field(default_factory=dict)
    #: how many changes each entry holds that compacts some; the oldest entry first
    compacted: dict[Offset, int] = msgspec.field(default_factory=dict)
    #: a transaction has been here
    is_wanted: bool = False
    forgotten: Clock = ZERO

    def wants_raw(self, clock: Clock) -> bool:
        """Raw records were appended: whether their keys are to be remembered."""
        if self.forgotten > ZERO and not self.is_wanted:
            self.forgotten = clock
            return False
        return True

    def add_raw(self, clock: Clock, entry: Offset, keys: Iterable[bytes]) -> None:
        """Remember the keys of raw records, if they are not too many."""
        self.add_changes(clock, entry, keys)
        if not self.is_wanted and len(self.keys) > raw_keys_max:
            self.keys, self.forgotten = {}, clock

    def compact(self, entry: Offset, changes: Sequence[tuple[bytes, Clock]], first: Offset) -> None:
        """An entry has newest changes once more; it was written when the log began with ``first``."""
        known = self.keys
        for place, (key, clock) in enumerate(changes):
            latest = known.get(key)
            if latest is not None and latest.clock == clock:  # Y3
                del known[key]
                known[key] = Latest(clock, entry, place)
        self.compacted[entry] = len(changes)
        while (oldest := next(iter(self.compacted))) < first:
            del self.compacted[oldest]
        # What was trimmed without being pruned was never compacted.
        while known and known[front := next(iter(known))].entry < first:
            self.forgotten = max(self.forgotten, known.pop(front).clock)

    def add_changes(self, clock: Clock, entry: Offset, keys: Iterable[bytes]) -> None:
        """A transaction was committed."""
        known = self.keys
        # Of an entry's changes of one key the last one counts, and takes its place at the end.
        for place, key in enumerate(keys):
            known.pop(key, None)
            known[key] = Latest(clock, entry, place)
        if self.is_wanted:
            while len(known) > latest_keys_max:
                self.forgotten = max(self.forgotten, known.pop(next(iter(known))).clock)

    def entries(self, first: Offset) -> Iterator[Offset]:
        """Where newest changes lie, from an entry on, rising; one for each key (Y3)."""
        return (latest.entry for latest in self.keys.values() if latest.entry >= first)

    def knows(self, key: bytes) -> bool:
        """Whether it can be told what the newest change of a key is (Y2)."""
        return self.forgotten == ZERO or key in self.keys
