"""The feed as part of the face of a database: pages, tails, plans for many readers, and how it stands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

from motet.client.calls import Calls
from motet.client.change import Change
from motet.client.feed import Feed, Page, Tail
from motet.client.feed_split import FeedPlan, plan_of, split_feed
from motet.client.feed_status import (
    FeedStatus,
    IncompleteTransaction,
    NodeStanding,
    status_of_one_node,
)
from motet.client.rows import Key, stream_name, stream_names
from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import Describe, Described, FeedSplit

page_limit_default = 1000


class FeedFace:
    """What a database has to say about its feed."""

    #: its own number: a cursor or a checkpoint of another one is refused
    database_id: int
    _calls: Calls
    _feed: Feed

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

        A page may be longer than ``limit`` when its only transaction is. It begins behind a cursor or a
        clock, so long ago (``last``), or with ``after="oldest"`` where all of the streams have their feed;
        with none of these at the beginning, or ``CursorExpired`` if not all are there from the same clock
        on. With a key it has the changes of this key alone.
        """
        return await self._feed.changes(streams, after, limit, up_to, key, last)

    async def oldest(self, *streams: str) -> Clock:
        """Behind this clock all of these streams have their feed: none of it is pruned; zero: all of it."""
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
        """Where to cut the feed behind a cursor or a clock: for readers side by side, or bit by bit."""
        behind = await self._feed.clock_at(stream_names(streams), after)
        return await split_feed(self._calls, streams, behind, up_to, changes_max, splits)

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
        return plan_of(split, begin)
