"""The change feed: pages of it, and a tail that follows it.

A page holds whole transactions, in the order of their clocks, and a cursor behind them. Reading on from the
cursor misses nothing and repeats nothing, however large the pages are.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from motet.client.calls import Calls
from motet.client.change import Change
from motet.client.cursor import Cursor, clock_behind, cursor_text
from motet.client.rows import page_limit, stream_name, stream_names, whole_number
from motet.core.clock.hlc import Clock
from motet.core.streams.messages import FeedPage, ReadFeed, ReadVisible, VisibleIs
from motet.errors import BadInput, MotetError, NodeError
from motet.ids import StreamName

tail_pause_seconds_min, tail_pause_seconds_max = 0.002, 0.05
"""How long a tail waits when there is nothing new: at first, and after a while."""

stop_after_max = (1 << 63) - 1


class Page:
    """Some changes, in order, and the cursor behind them."""

    __slots__ = ("changes", "cursor", "more", "visible")

    def __init__(self, changes: list[Change], cursor: str, visible: Clock, more: bool) -> None:
        self.changes = changes
        #: printable; hand it to ``changes`` or ``tail`` as ``after``, in any process
        self.cursor = cursor
        #: the visible clock when the page was read
        self.visible = visible
        #: there was more behind this page
        self.more = more

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __repr__(self) -> str:
        more = ", more behind it" if self.more else ""
        return f"<Page of {len(self.changes)} changes, visible {self.visible}{more}>"

    def to_arrow(self) -> Any:
        """The changes as a ``pyarrow.Table``.

        ``row`` and ``before`` are JSON text; a raw entry has its bytes in ``value`` instead.
        """
        try:
            pyarrow = import_module("pyarrow")
        except ImportError:
            raise NodeError(
                "to_arrow needs pyarrow, which is not installed",
                hint="install it, for instance with `pip install motet[sql]`",
            ) from None
        rows = [_arrow_row(change) for change in self.changes]
        return pyarrow.Table.from_pylist(rows, schema=_arrow_schema(pyarrow))


class Feed:
    """The feed of one database, which has a number of its own."""

    def __init__(self, calls: Calls, database: int) -> None:
        self._calls = calls
        self._database = database

    async def changes(
        self,
        streams: tuple[str, ...],
        after: str | Clock | None,
        limit: int,
        up_to: Clock | None = None,
    ) -> Page:
        """The page behind a cursor, or behind a clock."""
        names = stream_names(streams)
        page_limit(limit)
        behind = after
        if isinstance(after, str):
            behind = clock_behind(
                after, database=self._database, streams=names, name=self._calls.name
            )
        if not isinstance(behind, Clock | None):
            raise BadInput(f"after is a cursor or a clock, not {type(after).__name__}")
        found = await self._read(names, behind, limit, up_to)
        while found.more and not found.changes:
            # A long stretch of other streams: the node looks only so far for one request.
            found = await self._read(names, found.through, limit, up_to)
        cursor = cursor_text(Cursor(self._database, found.through, names))
        return Page(list(map(Change, found.changes)), cursor, found.visible, found.more)

    async def _read(
        self, names: tuple[StreamName, ...], after: Clock | None, limit: int, up_to: Clock | None
    ) -> FeedPage:
        return await self._calls.repeated(
            lambda n: ReadFeed(n, names, after, limit, up_to), FeedPage
        )

    async def visible(self, streams: tuple[str, ...], wait: bool) -> Clock:
        """The visible clock of some streams, of all if none is named."""
        names = tuple(map(stream_name, streams))
        answer = await self._calls.repeated(lambda n: ReadVisible(n, names, wait), VisibleIs)
        return answer.clock


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
    ) -> None:
        self._feed = feed
        self._calls = calls
        self._streams = stream_names(streams)
        self._after = after
        self._limit = page_limit(limit)
        self._left = stop_after
        if stop_after is not None:
            whole_number("stop_after", stop_after, 0, stop_after_max)

    async def next_changes(self) -> list[Change]:
        """The next ones, as soon as there are some; none when it is over."""
        pause_seconds = tail_pause_seconds_min
        while self._left != 0 and not self._calls.is_closing():
            try:
                page = await self._feed.changes(self._streams, self._after, self._limit)
            except MotetError:
                if self._calls.is_closing():
                    break
                raise
            self._after = page.cursor
            if page.changes:
                return self._counted(page.changes)
            await self._calls.pause(pause_seconds)
            pause_seconds = min(2 * pause_seconds, tail_pause_seconds_max)
        return []

    def _counted(self, changes: list[Change]) -> list[Change]:
        if self._left is not None:
            del changes[self._left :]
            self._left -= len(changes)
        return changes


def _arrow_schema(pyarrow: Any) -> Any:
    clock = pyarrow.struct([("logical", pyarrow.int64()), ("counter", pyarrow.int32())])
    return pyarrow.schema(
        [
            ("clock", clock),
            ("transaction", pyarrow.string()),
            ("index", pyarrow.int32()),
            ("count", pyarrow.int32()),
            ("stream", pyarrow.string()),
            ("shard", pyarrow.int32()),
            ("key", pyarrow.binary()),
            ("op", pyarrow.string()),
            ("row", pyarrow.string()),
            ("before", pyarrow.string()),
            ("at", pyarrow.timestamp("ms", tz="UTC")),
            ("value", pyarrow.binary()),
        ]
    )


def _arrow_row(change: Change) -> dict[str, object]:
    raw = change.raw
    is_entry = raw.op == "append"
    row = None if is_entry or raw.row is None else raw.row.decode()
    return {
        "clock": {"logical": raw.clock.logical, "counter": raw.clock.counter},
        "transaction": raw.transaction,
        "index": raw.index,
        "count": raw.count,
        "stream": raw.stream,
        "shard": raw.shard,
        "key": raw.key,
        "op": raw.op,
        "row": row,
        "before": None if raw.before is None else raw.before.decode(),
        "at": change.at,
        "value": raw.row if is_entry else None,
    }
