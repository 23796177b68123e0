"""The feed in the face of a database: pages, tails, plans for many readers, and what is kept of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import msgspec

from motet.client.calls import Calls
from motet.client.change import Change
from motet.client.cursors import (
    FeedOrders,
    NamedCursor,
    cursor_clock,
    in_the_way,
    parse_cursor,
    pruned_up_to,
)
from motet.client.feed import Feed, Page, Tail
from motet.client.feed_status import (
    FeedStatus,
    IncompleteTransaction,
    NodeStanding,
    status_of_one_node,
)
from motet.client.rows import Key, stream_name, stream_names, whole_number
from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import Describe, Described, FeedSplit, SplitFeed
from motet.core.streams.orders import Prune, SetCursor
from motet.errors import BadInput
from motet.errors.shards import CursorInTheWay
from motet.ids import StreamName
from motet.limits import feed_splits_max

page_limit_default = 1000
changes_max_max = (1 << 62) - 1


class FeedPlan(msgspec.Struct, frozen=True):
    """A slice of the feed, cut into splits that readers can read side by side."""

    #: each is read after its first clock and up to its second
    splits: tuple[tuple[Clock, Clock], ...]
    #: changes in the slice; of an embedded database those of other streams are counted too
    changes: int
    #: changes that are known to follow the slice
    changes_after: int
    visible: Clock

    @property
    def up_to(self) -> Clock:
        """Where the slice ends, and the next one begins: between two transactions."""
        return self.splits[-1][1]


class FeedFace:
    """What a database has to say about its feed."""

    #: its own number: a cursor or a checkpoint of another one is refused
    database_id: int
    _calls: Calls
    _feed: Feed
    _orders: FeedOrders

    async def visible_clock(self, *streams: str, wait: bool = False) -> Clock:
        """No change of these streams at or below this clock appears any more.

        With ``wait``, one that everything committed before the call is at or below.
        """
        return await self._feed.visible(streams, wait)

    async def changes(
        self,
        *streams: str,
        after: str | Clock | None = None,
        limit: int = page_limit_default,
        up_to: Clock | None = None,
        key: Key | None = None,
        last: timedelta | None = None,
    ) -> Page:
        """The next page of the feed of these streams: whole transactions, in the order of their clocks.

        A page may be longer than ``limit`` when its only transaction is. It begins after a cursor or a
        clock, so long ago (``last``), or with ``after="oldest"`` where all of the streams have their feed;
        with none of these at the beginning, or ``CursorExpired`` if not all are there from the same clock
        on. With a key it has the changes of this key alone.
        """
        return await self._feed.changes(streams, after, limit, up_to, key, last)

    async def oldest(self, *streams: str) -> Clock:
        """After this clock all of these streams have their feed: none of it is pruned; zero: all of it."""
        return await self._feed.oldest(stream_names(streams))

    async def tail(
        self,
        *streams: str,
        after: str | Clock | None = None,
        limit: int = page_limit_default,
        stop_after: int | None = None,
        key: Key | None = None,
        last: timedelta | None = None,
    ) -> AsyncIterator[Change]:
        """All changes of these streams, for ever: until the database is closed, or so many have come."""
        tail = self.follow(
            *streams, after=after, limit=limit, stop_after=stop_after, key=key, last=last
        )
        while changes := await tail.next_items():
            for change in changes:
                yield change

    def follow(
        self,
        *streams: str,
        after: str | Clock | None = None,
        limit: int = page_limit_default,
        stop_after: int | None = None,
        key: Key | None = None,
        last: timedelta | None = None,
    ) -> Tail:
        """What a tail is made of, also without an event loop."""
        return Tail(self._feed, self._calls, streams, after, limit, stop_after, key, last)

    async def feed_status(self, *streams: str) -> FeedStatus:
        """How far each shard of these streams is closed, and what holds the visible clock back."""
        names = tuple(map(stream_name, streams))
        described = await self._calls.repeated(Describe, Described)
        return status_of_one_node(described, names)

    async def nodes(self) -> list[NodeStanding]:
        """All nodes; an embedded database is one."""
        described = await self._calls.repeated(Describe, Described)
        shards = sum(info.shards for info in described.streams)
        return [NodeStanding(self._calls.name, None, ("data",), shards, shards)]

    async def incomplete_transactions(self) -> list[IncompleteTransaction]:
        """Transactions that are prepared in a shard and not ended there; embedded there are none."""
        return []

    async def split_feed(
        self,
        *streams: str,
        after: str | Clock | None = None,
        up_to: Clock | None = None,
        changes_max: int | None = None,
        splits: int = 1,
    ) -> FeedSplit:
        """Where to cut the feed after a cursor or a clock: for readers side by side, or bit by bit."""
        names = stream_names(streams)
        begin = await self._feed.clock_at(names, after)
        if not isinstance(up_to, Clock | None):
            raise BadInput(f"up_to is a clock, not {type(up_to).__name__}")
        if changes_max is not None:
            whole_number("changes_max", changes_max, 1, changes_max_max)
        whole_number("splits", splits, 1, feed_splits_max)
        return await self._calls.repeated(
            lambda n: SplitFeed(n, names, begin, up_to, changes_max, splits), FeedSplit
        )

    async def feed_plan(
        self,
        streams: Sequence[str],
        after: str | Clock | None = None,
        max_changes: int | None = None,
        splits: int = 1,
        up_to: Clock | None = None,
    ) -> FeedPlan:
        """A slice of the feed with at most so many changes, or one transaction, cut for several readers."""
        begin = await self._feed.clock_at(stream_names(tuple(streams)), after) or ZERO
        split = await self.split_feed(
            *streams, after=begin, up_to=up_to, changes_max=max_changes, splits=splits
        )
        cuts = tuple(zip((begin, *split.bounds[:-1]), split.bounds, strict=True))
        return FeedPlan(cuts, split.changes, split.changes_after, split.visible)

    # What is kept of it, and for whom

    async def save_cursor(self, name: str, cursor: str) -> None:
        """Keep what follows a cursor until it is saved again, further on, or dropped."""
        at = parse_cursor(cursor)
        cursor_clock(cursor, database=self.database_id, streams=at.streams, name=self._calls.name)
        await self._orders.order(at.streams, SetCursor(name, at.clock))

    async def drop_cursor(self, name: str, *streams: str) -> None:
        """Keep nothing for a named cursor any more, or nothing of these streams; it need not be there."""
        for cursor in await self._orders.cursors():
            dropped = tuple(each for each in cursor.streams if not streams or each in streams)
            if cursor.name == name and dropped:
                await self._orders.order(dropped, SetCursor(name, None))

    async def cursors(self) -> list[NamedCursor]:
        """All named cursors, by name."""
        return await self._orders.cursors()

    async def prune(
        self,
        *streams: str,
        older_than: timedelta | None = None,
        up_to: Clock | None = None,
        force: bool = False,
    ) -> Clock:
        """Forget the feed of these streams up to a clock, or older than so long; the new low watermark.

        ``CursorInTheWay`` if a named cursor has not read that yet, unless it is forced.
        """
        names = stream_names(streams)
        wanted = pruned_up_to((await self.feed_status()).clock, older_than, up_to)
        visible = await self.visible_clock(*names)
        if wanted > visible:
            if up_to is not None:
                raise BadInput(
                    f"{up_to} is above the visible clock {visible}: it is not all there yet"
                )
            wanted = visible
        try:
            await self._orders.order(names, Prune(wanted, force))
        except CursorInTheWay as error:
            # A node names the first cursor in the way of one shard or stream: here are all of them.
            raise in_the_way(await self._orders.cursors(), names, wanted) or error from None
        return await self.low_watermark(*names)

    async def low_watermark(self, *streams: str) -> Clock:
        """Everything of these streams up to this clock is pruned; zero: nothing."""
        return max((await self._orders.low_watermarks(stream_names(streams))).values())

    async def feed_begins(self, *streams: str) -> dict[StreamName, Clock]:
        """For each of these streams: its feed can be read after this clock; zero: all of it."""
        return await self._calls.feed_begins(stream_names(streams))
