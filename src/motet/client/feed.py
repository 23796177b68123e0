"""The change feed: pages of it, and a tail that follows it.

A page holds whole transactions, in the order of their clocks, and a cursor after them. Reading on from the
cursor misses nothing and repeats nothing, however large the pages are.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from time import monotonic
from typing import Any

from motet.client.calls import Calls
from motet.client.change import Change
from motet.client.cursors import OLDEST, FeedPosition, cursor_clock, cursor_text
from motet.client.rows import (
    Key,
    Schemas,
    StreamSchema,
    key_bytes,
    need_pyarrow,
    page_limit,
    stream_name,
    stream_names,
    whole_number,
)
from motet.client.stream import tail_pause_seconds_max, tail_pause_seconds_min
from motet.core.clock.hlc import Clock
from motet.core.onelog.messages import FeedPage, ReadFeed, ReadVisible, VisibleIs
from motet.core.streams.change import FeedChange, Run, changes_in, count_in
from motet.errors import BadInput, MotetError
from motet.ids import StreamName
from motet.real.process import RealTime

stop_after_max = (1 << 63) - 1


class Page:
    """Some changes, in order, and the cursor after them."""

    __slots__ = ("_changes", "_raw", "_streams", "cursor", "more", "runs", "visible")

    def __init__(
        self,
        runs: tuple[Run, ...],
        cursor: str,
        visible: Clock,
        more: bool,
        streams: tuple[StreamSchema, ...],
    ) -> None:
        #: the changes as they came
        self.runs = runs
        #: made when somebody looks at them one by one: Arrow does not
        self._raw: tuple[FeedChange, ...] | None = None
        self._changes: list[Change] | None = None
        #: printable; hand it to ``changes`` or ``tail`` as ``after``, in any process
        self.cursor = cursor
        #: the visible clock when the page was read
        self.visible = visible
        #: there was more after this page
        self.more = more
        self._streams = streams

    @property
    def raw(self) -> tuple[FeedChange, ...]:
        """The changes, in order, with rows as they were written."""
        if self._raw is None:
            self._raw = changes_in(self.runs)
        return self._raw

    @property
    def changes(self) -> list[Change]:
        """The changes, in order."""
        if self._changes is None:
            schemas = dict(self._streams)
            self._changes = [Change(raw, schemas[raw.stream]) for raw in self.raw]
        return self._changes

    def __len__(self) -> int:
        return count_in(self.runs)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __repr__(self) -> str:
        more = ", more after it" if self.more else ""
        return f"<Page of {len(self)} changes, visible {self.visible}{more}>"

    def to_arrow(self) -> Any:
        """The changes as a ``pyarrow.Table``.

        ``row`` and ``before`` are JSON text, unless all streams have a schema: then the struct of the one
        stream, or of several a struct with a field for each.
        """
        need_pyarrow("to_arrow")
        from motet.columnar.feed import feed_table

        return feed_table(self.runs, self._streams)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """For whatever takes Arrow: pandas, polars, DuckDB."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class Feed:
    """The feed of one database, which has a number of its own."""

    def __init__(self, calls: Calls, database: int, schemas: Schemas) -> None:
        self._calls = calls
        self._database = database
        self._schemas = schemas

    async def changes(
        self,
        streams: tuple[str, ...],
        after: str | Clock | None,
        limit: int,
        up_to: Clock | None = None,
        key: Key | None = None,
        last: timedelta | None = None,
    ) -> Page:
        """The page after a cursor, after a clock, where all begin, or of the time that has just passed."""
        names = stream_names(streams)
        page_limit(limit)
        only = None if key is None else key_bytes(key)
        if not isinstance(up_to, Clock | None):
            raise BadInput(f"up_to is a clock, not {type(up_to).__name__}")
        begin = await self.clock_at(names, after) if last is None else _since(last, after)
        found = await self._read(names, begin, limit, up_to, only)
        while found.more and not found.runs:
            # A long range of other streams or keys: the node looks only so far for one request.
            found = await self._read(names, found.through, limit, up_to, only)
        self._calls.clock_visibility.look_at(found.runs)
        cursor = cursor_text(FeedPosition(self._database, found.through, names))
        schemas = {name: await self._schemas.of(name) for name in names}
        known = tuple(StreamSchema(*each) for each in schemas.items())
        return Page(found.runs, cursor, found.visible, found.more, known)

    async def clock_at(
        self, names: tuple[StreamName, ...], after: str | Clock | None
    ) -> Clock | None:
        """The clock of a place in the feed; None for the beginning."""
        if after == OLDEST:
            return await self.oldest(names)
        if isinstance(after, str):
            return cursor_clock(
                after, database=self._database, streams=names, name=self._calls.name
            )
        if not isinstance(after, Clock | None):
            raise BadInput(f"after is a cursor or a clock, not {type(after).__name__}")
        return after

    async def oldest(self, names: tuple[StreamName, ...]) -> Clock:
        """After this clock all of these streams have their feed; zero: it is all there."""
        return max((await self._calls.feed_begins(names)).values())

    async def _read(
        self,
        names: tuple[StreamName, ...],
        after: Clock | None,
        limit: int,
        up_to: Clock | None,
        key: bytes | None,
    ) -> FeedPage:
        return await self._calls.repeated(
            lambda n: ReadFeed(n, names, after, limit, up_to, key), FeedPage
        )

    async def visible(self, streams: tuple[str, ...], wait: bool) -> Clock:
        """The visible clock of some streams, of all if none is named."""
        names = tuple(map(stream_name, streams))
        answer = await self._calls.repeated(lambda n: ReadVisible(n, names, wait), VisibleIs)
        return answer.clock


def _since(last: timedelta, after: object) -> Clock:
    """The clock so long ago: the logical part of a clock is the time of day, or a little ahead of it."""
    if after is not None:
        raise BadInput("both after and last are given", hint="give one of them")
    if not isinstance(last, timedelta):
        raise BadInput(f"last is a timedelta, not {type(last).__name__}")
    if last <= timedelta(0):
        raise BadInput(f"last is a length of time above zero, not {last}")
    return Clock(max(RealTime().now().wall_ms - last // timedelta(milliseconds=1), 0), 0)


class Tail:
    """Follows the feed for ever, or for a number of changes; has nothing to give back when it is dropped."""

    def __init__(
        self,
        feed: Feed,
        calls: Calls,
        streams: tuple[str, ...],
        after: str | Clock | None,
        limit: int,
        stop_after: int | None,
        key: Key | None = None,
        last: timedelta | None = None,
    ) -> None:
        self._feed = feed
        self._calls = calls
        self._streams = stream_names(streams)
        self._after = after
        self._limit = page_limit(limit)
        self._key = None if key is None else key_bytes(key)
        if last is not None:
            self._after = _since(last, after)
        self._left = stop_after
        if stop_after is not None:
            whole_number("stop_after", stop_after, 0, stop_after_max)

    async def next_items(self) -> list[Change]:
        """The next ones, as soon as there are some; none when it is over."""
        pause_seconds = tail_pause_seconds_min
        while self._left != 0 and not self._calls.is_closing():
            began = monotonic()
            try:
                page = await self._feed.changes(
                    self._streams, self._after, self._limit, key=self._key
                )
            except MotetError:
                if self._calls.is_closing():
                    break
                raise
            self._after = page.cursor
            if page.changes:
                return self._counted(page.changes)
            # Whoever is slow to answer has much to do: a tail asks for half of the time at most.
            await self._calls.pause(max(pause_seconds, monotonic() - began))
            pause_seconds = min(2 * pause_seconds, tail_pause_seconds_max)
        return []

    def _counted(self, changes: list[Change]) -> list[Change]:
        if self._left is not None:
            del changes[self._left :]
            self._left -= len(changes)
        return changes
