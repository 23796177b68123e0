"""What shards have given beyond the end of a page: kept for the page that follows.

A shard is asked for some changes, and a page ends where the first of its shards does. What the others have
given is not asked for once more. Only what is closed is kept here, so it stays true as long as it is kept.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.streams.feed_merge import ShardPage
from motet.core.streams.messages import FoundEntry
from motet.ids import ShardId, ShardName, StreamName
from motet.limits import MIB

ahead_bytes_max = 64 * MIB
"""What one client keeps of all shards; what was used longest ago goes first."""


class ShardRange(msgspec.Struct):
    """All entries of a shard behind one clock and through another, by their clocks."""

    after: Clock
    through: Clock
    entries: list[FoundEntry]

    @property
    def size_bytes(self) -> int:
        return sum(len(entry.body) for entry in self.entries)

    def page(
        self, stream: StreamName, number: ShardId, shard: ShardName, after: Clock, target: Clock
    ) -> ShardPage:
        """What of it is behind one clock, and not above another."""
        first, last = self._behind(after), self._behind(target)
        return ShardPage(
            stream, number, shard, tuple(self.entries[first:last]), min(self.through, target)
        )

    def _behind(self, clock: Clock) -> int:
        return bisect_right(self.entries, clock, key=lambda entry: entry.clock)


class ReadAhead:
    """The last range of each shard."""

    def __init__(self) -> None:
        self._ranges: dict[ShardName, ShardRange] = {}
        self._bytes: dict[ShardName, int] = {}
        self._total_bytes = 0

    def of(self, shard: ShardName, after: Clock) -> ShardRange | None:
        """What is kept of a shard behind a clock; None for nothing."""
        kept = self._ranges.get(shard)
        return kept if kept is not None and kept.after <= after < kept.through else None

    def has_ended_at(self, shard: ShardName, after: Clock) -> bool:
        """Whether what was kept ended there, and had something in it: somebody reads on and on."""
        kept = self._ranges.get(shard)
        return kept is not None and kept.through == after and bool(kept.entries)

    def keep(self, shard: ShardName, found: ShardRange) -> None:
        """Keep this one instead of what was kept."""
        self._forget(shard)
        self._ranges[shard] = found
        self._bytes[shard] = found.size_bytes
        self._total_bytes += self._bytes[shard]
        while self._total_bytes > ahead_bytes_max and len(self._ranges) > 1:
            self._forget(next(iter(self._ranges)))

    def _forget(self, shard: ShardName) -> None:
        if self._ranges.pop(shard, None) is not None:
            self._total_bytes -= self._bytes.pop(shard)
