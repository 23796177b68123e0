"""Cursors and bookmarks, which are texts that any process can go on from, and cursors that have a name.

A *cursor* is where a reader of the feed is: a clock, together with the database and the streams it belongs
to, since the same clock would mean something else elsewhere.

A *bookmark* is the highest clock that its client has seen, with the database it belongs to. Who connects
*after* it

- reads what its client has written (read your writes), and nothing older than what it has read (monotonic
  reads): by key and by shard at once, in the feed when everything up to the bookmark is visible, which is
  waited for;
- writes at higher clocks than what that client has read (writes follow reads) and written (monotonic writes).

The text of both is a prefix with the version, and in base64 a checksum and the fields: letters, digits, dots,
dashes and underscores. A text of which a single character was changed is refused.

A *named cursor* is a reader whose name the database knows, so that nothing is pruned that it has not read.
Orders about them are carried out by whoever has the feed: the one node of an embedded database, or all shards
of a cluster. What they mean is the same: :mod:`motet.core.streams.orders`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from motet.client.calls import Calls
from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import DescribeFeed, FeedDescribed, FeedObeyed, KeptFeed, OrderFeed
from motet.core.streams.orders import Order, Prune
from motet.errors import BadBookmark, BadCursor, BadInput
from motet.errors.shards import CursorInTheWay
from motet.format.checksum import crc32c
from motet.ids import StreamName

CHECKSUM_BYTES = 4
text_length_max = 1 << 20

OLDEST: Final = "oldest"
"""Instead of a cursor: where all of the streams that are read have their feed."""

S = TypeVar("S", bound=msgspec.Struct)


class _Printable(Generic[S]):
    """Structs of one kind as text and back."""

    def __init__(self, prefix: str, kind: type[S], what: str, error: type[BadInput]) -> None:
        self._prefix, self._what, self._error = prefix, what, error
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def text(self, value: S) -> str:
        """Text of letters, digits, dots, dashes and underscores."""
        body = msgspec.msgpack.encode(value)
        data = crc32c(body).to_bytes(CHECKSUM_BYTES, "little") + body
        return self._prefix + base64.urlsafe_b64encode(data).decode().rstrip("=")

    def parse(self, text: object) -> S:
        """Read it back; the error of its kind when a single character of it is not as it was."""
        shown = repr(text)
        shown = shown if len(shown) <= 60 else shown[:60] + "…"
        known = isinstance(text, str) and text.startswith(self._prefix)
        if not isinstance(text, str) or not known or len(text) > text_length_max:
            raise self._error(f"{shown} is not {self._what}")
        garbled = self._error(f"{shown} is garbled")
        digits = text.removeprefix(self._prefix)
        try:
            data = base64.b64decode(
                digits + "=" * (-len(digits) % 4), altchars=b"-_", validate=True
            )
        except ValueError:
            raise garbled from None
        checksum, body = data[:CHECKSUM_BYTES], data[CHECKSUM_BYTES:]
        if crc32c(body).to_bytes(CHECKSUM_BYTES, "little") != checksum:
            raise self._error(f"{shown} is garbled: its checksum is wrong")
        try:
            value = self._decode(body)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            raise garbled from None
        if self.text(value) != text:
            raise garbled
        return value


class FeedPosition(msgspec.Struct, frozen=True, array_like=True):
    """Everything of these streams up to this clock has been read."""

    database: int
    clock: Clock
    #: sorted, each once
    streams: tuple[StreamName, ...]


class Bookmark(msgspec.Struct, frozen=True, array_like=True):
    """Everything up to this clock may have been seen."""

    database: int
    clock: Clock


_CURSORS = _Printable("motet1.", FeedPosition, "a cursor", BadCursor)
_BOOKMARKS = _Printable("motet-b1.", Bookmark, "a bookmark", BadBookmark)
cursor_text, parse_cursor = _CURSORS.text, _CURSORS.parse
bookmark_text, parse_bookmark = _BOOKMARKS.text, _BOOKMARKS.parse


def cursor_clock(text: str, *, database: int, streams: tuple[StreamName, ...], name: str) -> Clock:
    """The clock of a cursor that is of this database and these streams; ``BadCursor`` if it is not."""
    cursor = parse_cursor(text)
    if cursor.database != database:
        raise BadCursor(f"the cursor is of another database, not of {name}")
    if cursor.streams != streams:
        theirs, ours = ", ".join(cursor.streams), ", ".join(streams)
        raise BadCursor(f"the cursor is of the streams {theirs}, not of {ours}")
    return cursor.clock


def bookmark_clock(text: object, *, database: int, name: str) -> Clock:
    """The clock of a bookmark of this database; ``BadBookmark`` if it is of another."""
    bookmark = parse_bookmark(text)
    if bookmark.database != database:
        raise BadBookmark(f"the bookmark is of another database, not of {name}")
    return bookmark.clock


PIPELINES = "pipeline/"
"""What the names of the cursors of pipelines begin with."""

in_the_way_max = 3
"""How many readers an error names that are in the way of pruning."""


def pipeline_cursor(pipeline: str, tables: int | None = None) -> str:
    """The name of a pipeline's cursor; ``tables``: the number of the database with its tables, if another."""
    return f"{PIPELINES}{pipeline}" + ("" if tables is None else f"@{tables:016x}")


class NamedCursor(msgspec.Struct, frozen=True):
    """A reader of some streams that has everything up to a clock."""

    name: str
    streams: tuple[StreamName, ...]
    clock: Clock
    #: changes after it were pruned by force
    is_expired: bool = False

    @property
    def reader(self) -> str:
        """Who reads by it, for people."""
        if self.name.startswith(PIPELINES):
            return "pipeline " + self.name.removeprefix(PIPELINES).partition("@")[0]
        return f"the named cursor {self.name!r}"


def named_cursors(
    kept: Iterable[tuple[StreamName, tuple[tuple[str, Clock], ...], Clock]],
) -> list[NamedCursor]:
    """All named cursors by name, from what is kept of streams or shards: cursors, and the low watermark.

    The clock of one is the lowest that is kept for it.
    """
    found: dict[str, NamedCursor] = {}
    for stream, cursors, low_watermark in kept:
        for name, clock in cursors:
            known = found.get(name)
            streams = (stream,) if known is None else (*known.streams, stream)
            lowest = clock if known is None else min(clock, known.clock)
            is_expired = clock < low_watermark or (known is not None and known.is_expired)
            found[name] = NamedCursor(
                name, tuple(dict.fromkeys(sorted(streams))), lowest, is_expired
            )
    return [found[name] for name in sorted(found)]


def in_the_way(
    cursors: Iterable[NamedCursor], streams: Iterable[StreamName], up_to: Clock
) -> CursorInTheWay | None:
    """Who has not read yet what is to be pruned, and what to do about it; None: nobody."""
    pruned = dict.fromkeys(streams)
    slow = [
        each
        for each in cursors
        if each.clock < up_to and not each.is_expired and any(s in pruned for s in each.streams)
    ]
    if not slow:
        return None
    named = [f"{each.reader} has read up to {each.clock}" for each in slow[:in_the_way_max]]
    if len(slow) > in_the_way_max:
        named.append(f"{len(slow) - in_the_way_max} more have read no further")
    lowest = min(each.clock for each in slow)
    force = f"prune up to {lowest}, or prune with --force (force=True)"
    if all(each.name.startswith(PIPELINES) for each in slow):
        hint = f"run the pipeline until it has caught up, {force}: it must be rebuilt then"
    else:
        drop = "drop it with `motet feed keep NAME`"
        hint = f"let the reader catch up, {drop}, {force}: it misses changes then"
    return CursorInTheWay(f"{', '.join(named)}, below {up_to}", hint=hint)


def pruned_up_to(now: Clock, older_than: timedelta | None, up_to: Clock | None) -> Clock:
    """The clock that is meant; by age it counts back from the cluster's clock, not from the time of day."""
    if (older_than is None) == (up_to is None):
        raise BadInput("say either older_than or up_to", hint="older_than=timedelta(days=7)")
    if up_to is not None:
        return up_to
    assert older_than is not None
    if older_than < timedelta(0):
        raise BadInput("nothing is older than the future", hint="older_than=timedelta(days=7)")
    return max(ZERO, Clock(max(0, now.logical - int(older_than.total_seconds() * 1000)), 0))


class FeedOrders(Protocol):
    """Whoever has the feed."""

    async def order(self, streams: tuple[StreamName, ...], order: Order) -> None:
        """Have it obeyed for these streams; ``CursorInTheWay`` if a named cursor keeps them from it."""

    async def low_watermarks(self, streams: tuple[StreamName, ...]) -> dict[StreamName, Clock]:
        """For each stream: everything up to this clock is pruned; zero: nothing."""

    async def cursors(self) -> list[NamedCursor]:
        """All named cursors, by name."""


prune_seconds_max = 120.0
"""How long a node may take to write once more what it keeps of files that it gives back."""


class NodeOrders:
    """Orders to an embedded database: its one node obeys an order for all streams at once."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def order(self, streams: tuple[StreamName, ...], order: Order) -> None:
        seconds = prune_seconds_max if isinstance(order, Prune) else None
        await self._calls.repeated(lambda n: OrderFeed(n, streams, order), FeedObeyed, seconds)

    async def low_watermarks(self, streams: tuple[StreamName, ...]) -> dict[StreamName, Clock]:
        return {each.stream: each.low_watermark for each in await self._described(streams)}

    async def cursors(self) -> list[NamedCursor]:
        found = await self._described(())
        return named_cursors((each.stream, each.cursors, each.low_watermark) for each in found)

    async def _described(self, streams: tuple[StreamName, ...]) -> tuple[KeptFeed, ...]:
        answer = await self._calls.repeated(lambda n: DescribeFeed(n, streams), FeedDescribed)
        return answer.streams
