"""What shards have given beyond the end of a page: kept for the page that follows.

A shard is asked for some changes, and a page ends where the first of its shards does. What the others have
given is not asked for once more. Only what is closed is kept here, so it stays true as long as it is kept.
"""

from __future__ import annotations

from motet.core.clock.hlc import Clock
from motet.core.streams.feed_merge import ShardPage
from motet.ids import ShardName
from motet.limits import MIB

ahead_bytes_max = 64 * MIB
"""What one client keeps of all shards; what was used longest ago goes first."""


class ReadAhead:
    """The last page of each shard."""

    def __init__(self) -> None:
        self._pages: dict[ShardName, ShardPage] = {}
        self._bytes: dict[ShardName, int] = {}
        self._total_bytes = 0

    def of(self, shard: ShardName, after: Clock) -> ShardPage | None:
        """What is kept of a shard after a clock; None for nothing."""
        kept = self._pages.get(shard)
        return kept if kept is not None and kept.after <= after < kept.through else None

    def has_ended_at(self, shard: ShardName, after: Clock) -> bool:
        """Whether what was kept ended there, and had something in it: somebody reads on and on."""
        kept = self._pages.get(shard)
        return kept is not None and kept.through == after and bool(kept.entries)

    def keep(self, found: ShardPage) -> None:
        """Keep this one instead of what was kept."""
        shard = found.shard
        self._forget(shard)
        self._pages[shard] = found
        self._bytes[shard] = found.size_bytes
        self._total_bytes += self._bytes[shard]
        while self._total_bytes > ahead_bytes_max and len(self._pages) > 1:
            self._forget(next(iter(self._pages)))

    def _forget(self, shard: ShardName) -> None:
        if self._pages.pop(shard, None) is not None:
            self._total_bytes -= self._bytes.pop(shard)
