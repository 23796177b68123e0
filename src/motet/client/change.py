"""Changes and entries, as readers see them: the fields of the feed, with rows decoded when asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from motet.client.rows import Row, row_of
from motet.core.clock.hlc import Clock
from motet.core.streams.change import FeedChange, Op, RowChange
from motet.ids import Offset, ShardId, StreamName, TransactionId

SHOWN_LENGTH_MAX = 60
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


class Position(msgspec.Struct, frozen=True, eq=False):
    """Where an appended entry is."""

    shard: ShardId
    epoch: int
    offset: Offset
    clock: Clock
    #: it had been there before: this token was used already
    duplicate: bool = False

    def __eq__(self, other: object) -> bool:
        """Whether it is the same place, however often it was asked for."""
        if not isinstance(other, Position):
            return NotImplemented
        return self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def _place(self) -> tuple[ShardId, int, Offset, Clock]:
        return self.shard, self.epoch, self.offset, self.clock


class Change:
    """One change of one key. In the feed, ``(clock, transaction, index)`` is its place in the order."""

    __slots__ = ("_schema", "raw")

    def __init__(self, raw: FeedChange, schema: bytes | None = None) -> None:
        #: as it came from the node
        self.raw = raw
        #: of its stream; None for rows of JSON
        self._schema = schema

    @property
    def clock(self) -> Clock | None:
        """The commit clock of its transaction; None if the clock was off then (``clock.enabled``)."""
        return self.raw.clock if self.raw.has_clock else None

    @property
    def transaction(self) -> TransactionId:
        return self.raw.transaction

    @property
    def index(self) -> int:
        """Which of the changes of its transaction, from 0."""
        return self.raw.index

    @property
    def count(self) -> int:
        """How many changes its transaction has."""
        return self.raw.count

    @property
    def stream(self) -> StreamName:
        return self.raw.stream

    @property
    def shard(self) -> ShardId:
        return self.raw.shard

    @property
    def offset(self) -> Offset:
        """Its place in its shard."""
        return self.raw.offset

    @property
    def key(self) -> bytes:
        return self.raw.key

    @property
    def op(self) -> Op:
        return self.raw.op

    @property
    def row(self) -> Any:
        """The row as a dict, typed as its stream is; the value of a raw entry; None for a delete."""
        return _decoded(self.raw.op, self.raw.row, self._schema)

    @property
    def before(self) -> Any:
        """The row before, if whoever made the change said it."""
        return _decoded(self.raw.op, self.raw.before, self._schema)

    @property
    def at(self) -> datetime:
        """The time of day at the node when it was taken."""
        return _1970 + timedelta(milliseconds=self.raw.at_ms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Change) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash((self.raw.transaction, self.raw.index))

    def __repr__(self) -> str:
        raw = self.raw
        at = raw.clock if raw.has_clock else "without a clock"
        return f"<{type(self).__name__} {at} {_shown(raw.op, raw.stream, raw.key, raw.row)}>"


class Entry(Change):
    """A change in its place in a shard."""

    __slots__ = ("epoch",)

    def __init__(self, raw: FeedChange, schema: bytes | None, epoch: int) -> None:
        super().__init__(raw, schema)
        #: in which its leader took it
        self.epoch = epoch

    @property
    def value(self) -> bytes | None:
        """The bytes as they were appended; of a row its JSON; None for a delete."""
        return self.raw.row


class OwnChange:
    """A change that the asking transaction has made itself and not committed yet."""

    __slots__ = ("_change", "_schema", "stream")

    #: it has none yet
    clock: Clock | None = None

    def __init__(self, stream: StreamName, change: RowChange, schema: bytes | None = None) -> None:
        self.stream = stream
        self._change = change
        self._schema = schema

    @property
    def key(self) -> bytes:
        return self._change.key

    @property
    def op(self) -> Op:
        return self._change.op

    @property
    def row(self) -> Any:
        return _decoded(self._change.op, self._change.row, self._schema)

    @property
    def before(self) -> Any:
        return _decoded(self._change.op, self._change.before, self._schema)

    def __repr__(self) -> str:
        mine = self._change
        return f"<OwnChange {_shown(mine.op, self.stream, mine.key, mine.row)}>"


def _decoded(op: Op, data: bytes | None, schema: bytes | None) -> Row | bytes | None:
    return data if data is None or op == "append" else row_of(data, schema)


def _shown(op: Op, stream: StreamName, key: bytes, row: bytes | None) -> str:
    text = f"{op} {stream} {key.decode(errors='backslashreplace')}"
    if row is not None:
        text += " " + row[:SHOWN_LENGTH_MAX].decode(errors="backslashreplace")
        text += "…" if len(row) > SHOWN_LENGTH_MAX else ""
    return text
