"""What is kept of the feed, and for whom: named cursors and pruning, as a part of a database's face.

Orders are carried out by whoever has the feed: the one node of an embedded database, or all shards of a
cluster. What they mean is the same: :mod:`motet.core.streams.orders`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from motet.client.cursor import clock_behind, parse_cursor
from motet.client.feed_face import FeedFace
from motet.client.named_cursor import NamedCursor, in_the_way, pruned_up_to
from motet.client.rows import stream_names
from motet.core.clock.hlc import Clock
from motet.errors import BadInput
from motet.errors.shards import CursorInTheWay
from motet.ids import StreamName


class FeedOrders(Protocol):
    """Whoever has the feed."""

    async def set_cursor(
        self, name: str, streams: tuple[StreamName, ...], clock: Clock | None
    ) -> None:
        """Keep what is above a clock for a reader of these streams; None: keep nothing for it."""

    async def prune(
        self, streams: tuple[StreamName, ...], up_to: Clock, *, is_forced: bool
    ) -> None:
        """Prune these streams, if no named cursor is in the way, or all the same."""

    async def low_watermarks(self, streams: tuple[StreamName, ...]) -> dict[StreamName, Clock]:
        """For each stream: everything up to this clock is pruned; zero: nothing."""

    async def cursors(self) -> list[NamedCursor]:
        """All named cursors, by name."""


class Keeping(FeedFace):
    """The part of the face."""

    _orders: FeedOrders

    async def save_cursor(self, name: str, cursor: str) -> None:
        """Keep what is behind a cursor until it is saved again, further on, or dropped."""
        at = parse_cursor(cursor)
        clock_behind(cursor, database=self.database_id, streams=at.streams, name=self._calls.name)
        await self._orders.set_cursor(name, at.streams, at.clock)

    async def drop_cursor(self, name: str, *streams: str) -> None:
        """Keep nothing for a named cursor any more, or nothing of these streams; it need not be there."""
        for cursor in await self._orders.cursors():
            dropped = tuple(each for each in cursor.streams if not streams or each in streams)
            if cursor.name == name and dropped:
                await self._orders.set_cursor(name, dropped, None)

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
            await self._orders.prune(names, wanted, is_forced=force)
        except CursorInTheWay as error:
            # A node names the first cursor in the way of one shard or stream: here are all of them.
            raise in_the_way(await self._orders.cursors(), names, wanted) or error from None
        return await self.low_watermark(*names)

    async def low_watermark(self, *streams: str) -> Clock:
        """Everything of these streams up to this clock is pruned; zero: nothing."""
        return max((await self._orders.low_watermarks(stream_names(streams))).values())

    async def feed_begins(self, *streams: str) -> dict[StreamName, Clock]:
        """For each of these streams: its feed can be read behind this clock; zero: all of it."""
        return await self._calls.feed_begins(stream_names(streams))
