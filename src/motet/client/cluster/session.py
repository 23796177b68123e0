"""A client's session: what it has seen of shards, and its calls that have not ended.

No answer shows a client less than it has seen: the guarantees of its session.
Leaders answer with all that is committed. Two things remain. A replica may lag: it is far enough when
it has every record that was seen or written before, and every transaction that was committed before, which it
has when it is closed up to its clock. And a transaction may be decided and not logged in all its shards yet:
then the leader of such a shard is far enough when it is closed up to that clock, too. A bookmark is a clock
that all shards must be closed up to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType

from motet.core.clock.hlc import ZERO, Clock
from motet.core.streams.messages import RecordsRead
from motet.ids import Offset, ShardName


class Session:
    """The floors of one client."""

    def __init__(self) -> None:
        #: everything up to here is to be seen: the bookmark that we came with
        self.bookmark = ZERO
        #: shard -> its records are to be seen up to this one
        self._records: dict[ShardName, Offset] = {}
        #: shard -> the newest transaction of ours in it
        self._committed: dict[ShardName, Clock] = {}
        #: the same, of those that were not logged everywhere when we heard of them
        self._unsettled: dict[ShardName, Clock] = {}

    def resume_after(self, clock: Clock) -> None:
        """Somebody else has seen everything up to here: so have we."""
        self.bookmark = max(self.bookmark, clock)

    def reached(self, shard: ShardName, next_offset: Offset) -> None:
        """Records before this one were read, or written."""
        if next_offset > self._records.get(shard, -1):
            self._records[shard] = next_offset

    def committed(self, shards: Iterable[ShardName], clock: Clock, *, is_settled: bool) -> None:
        """A transaction of ours is committed."""
        for shard in shards:
            self._committed[shard] = max(clock, self._committed.get(shard, ZERO))
            if not is_settled:
                self._unsettled[shard] = max(clock, self._unsettled.get(shard, ZERO))

    def is_enough(self, shard: ShardName, found: RecordsRead) -> bool:
        """Whether a replica has all that we have seen."""
        clock = max(self.bookmark, self._committed.get(shard, ZERO))
        return found.closed >= clock and found.next_offset >= self._records.get(shard, 0)

    def closed_floor(self, shard: ShardName) -> Clock:
        """The leader must have closed this far before it can answer us."""
        return max(self.bookmark, self._unsettled.get(shard, ZERO))


class UnderWay:
    """Counts calls, each for a ``with`` block: closing waits for them. One may ask several nodes in turn."""

    def __init__(self) -> None:
        self._count = 0
        #: somebody waits until there is none
        self._none: asyncio.Event | None = None

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._count -= 1
        if not self._count and self._none is not None:
            self._none.set()

    async def until_none(self, seconds: float) -> None:
        """Wait until all have ended, but no longer than this."""
        if not self._count:
            return
        self._none = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await self._none.wait()
        except TimeoutError:
            return
