"""What a node knows of its durable log: where each record is, each stream, the latest of each key.

The index is the state machine of the database's log: a fold of its entries, so reading the log from the
beginning gives the same index, which is how a restart gets it back. It holds places, not rows; rows are read
from the log when somebody asks.

A place is the *sequence* of a record: entry ``sequence + 1`` of the log. Entries by which the log begins an
epoch are counted too; they change nothing.

What a log is about to lose from its beginning the index forgets first (``forget``), and is put on disk
without it: then a restart folds what is kept of the log into that. The sequences of the others stay what
they are: they count from the first record that ever was.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Self

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.metadata.definitions import KeyHash
from motet.core.onelog.messages import StreamInfo
from motet.core.onelog.record import (
    ClockTurned,
    CommittedRecord,
    CompactedRecord,
    FeedOrdered,
    LogRecord,
    StreamRecord,
    decode_record,
    tables_in_the_log,
)
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.streams.change import Token
from motet.core.streams.orders import FeedRules
from motet.errors import BadRecord
from motet.ids import Epoch, Offset, ShardId, StreamName, TransactionId
from motet.limits import outcomes_remembered


class Places(msgspec.Struct):
    """Where each record of a log is in time, and how many changes there are up to it; by sequence."""

    #: the sequence of the first record that is known
    first: int = 0
    #: clocks[i] is the clock of record first + i; they rise
    clocks: list[Clock] = msgspec.field(default_factory=list)
    #: totals[i] is how many changes there ever were up to record first + i and in it
    totals: list[int] = msgspec.field(default_factory=list)
    #: the same for the last record that was forgotten
    forgotten_total: int = 0
    forgotten_clock: Clock = ZERO

    @property
    def stop(self) -> int:
        """The sequence after the last record."""
        return self.first + len(self.clocks)

    @property
    def newest(self) -> Clock:
        """The clock of the last record that ever was."""
        return self.clocks[-1] if self.clocks else self.forgotten_clock

    def add(self, clock: Clock, changes: int) -> None:
        """The next record."""
        self.totals.append(self.total_before(self.stop) + changes)
        self.clocks.append(clock)

    def clock_of(self, sequence: int) -> Clock:
        """The clock of a record."""
        at = sequence - self.first
        return self.clocks[at] if at >= 0 else self.forgotten_clock

    def first_after(self, clock: Clock | None) -> int:
        """The sequence of the first known record above a clock."""
        return self.first + (0 if clock is None else bisect_right(self.clocks, clock))

    def total_before(self, sequence: int) -> int:
        """How many changes there are before a record."""
        at = sequence - self.first
        return self.totals[at - 1] if at > 0 else self.forgotten_total

    def reaching(self, total: int, first: int, stop: int) -> int:
        """The first of some records up to which there are so many changes."""
        base = self.first
        return base + bisect_left(self.totals, total, first - base, stop - base)

    def exceeding(self, total: int, first: int, stop: int) -> int:
        """The first of some records up to which there are more changes."""
        base = self.first
        return base + bisect_right(self.totals, total, first - base, stop - base)

    def forget(self, before: int) -> None:
        """Nothing before this record is asked for any more."""
        gone = min(before, self.stop) - self.first
        if gone > 0:
            self.forgotten_clock, self.forgotten_total = (
                self.clocks[gone - 1],
                self.totals[gone - 1],
            )
            del self.clocks[:gone], self.totals[:gone]
            self.first += gone


class LatestChange(msgspec.Struct, frozen=True):
    """The newest change of a key."""

    clock: Clock
    #: the record it is in, and which of its changes it is
    sequence: int
    index: int


class TokenUse(msgspec.Struct, frozen=True):
    """The newest append of a producer, so that a retry gets the same answer."""

    number: int
    shard: ShardId
    epoch: Epoch
    offset: Offset
    clock: Clock


class StreamState(msgspec.Struct, rename={"created": "born"}):
    """One stream."""

    name: StreamName
    shards: int
    schema: bytes | None
    created: Clock
    #: entries[shard][offset - firsts[shard]] is the sequence of the record that holds the entry
    entries: list[list[int]]
    #: how many of each shard are forgotten
    firsts: list[int]
    #: in the order of their sequences
    latest: dict[bytes, LatestChange] = msgspec.field(default_factory=dict)
    #: by producer
    tokens: dict[str, TokenUse] = msgspec.field(default_factory=dict)
    #: what is kept of its feed, and for whom
    rules: FeedRules = msgspec.field(default_factory=FeedRules)
    key_hash: KeyHash = KeyHash.CRC32C

    def info(self) -> StreamInfo:
        counts = tuple(self.next_offset(ShardId(shard)) for shard in range(self.shards))
        return StreamInfo(
            self.name, self.shards, self.schema, self.created, counts, tuple(self.firsts)
        )

    def next_offset(self, shard: ShardId) -> Offset:
        """Where the next entry of a shard goes."""
        return Offset(self.firsts[shard] + len(self.entries[shard]))

    def set_latest(self, key: bytes, latest: LatestChange) -> None:
        """A key has a newer change, or the one it has lies further on in the log."""
        self.latest.pop(key, None)  # it takes its place at the end
        self.latest[key] = latest

    def first_at(self, sequence: int) -> int | None:
        """The first record of this stream that is not before another; None for nothing."""
        found = [
            entries[at]
            for entries in self.entries
            if (at := bisect_left(entries, sequence)) < len(entries)
        ]
        return min(found, default=None)

    def forget(self, before: int) -> None:
        """Records before this one are asked for no more."""
        for shard, entries in enumerate(self.entries):
            gone = bisect_left(entries, before)
            del entries[:gone]
            self.firsts[shard] += gone


class Index(msgspec.Struct, rename={"compacted": "carried"}):
    """Everything durable, by where it is."""

    streams: dict[StreamName, StreamState] = msgspec.field(default_factory=dict)
    places: Places = msgspec.field(default_factory=Places)
    #: how many changes each record holds that carries some on; by sequence, which rises
    compacted: dict[int, int] = msgspec.field(default_factory=dict)
    #: the newest transactions and their clocks, in the order of the log
    transactions: dict[TransactionId, Clock] = msgspec.field(default_factory=dict)
    #: turned_on[i] says whether what is above turned_at[i] has a clock for its readers; before all it has
    turned_at: list[Clock] = msgspec.field(default_factory=list)
    turned_on: list[bool] = msgspec.field(default_factory=list)
    #: those that say something, and the clock of the last of them
    records: int = 0
    newest_record: Clock = ZERO
    #: an entry cannot be: what it is, and what to do; nothing after it is taken in
    damage: tuple[str, str] | None = None

    # The state machine of the log

    def apply(self, entry: Entry) -> None:
        """Take in the next entry; one that cannot be is remembered, and stops the index where it is."""
        if self.damage is not None:
            return
        if entry.kind == EntryKind.BARRIER:
            self.places.add(entry.clock, 0)
            return
        try:
            record = decode_record(entry)
            objection = self.objection(record)
            if objection is not None:
                raise BadRecord(f"entry {entry.id.offset} does not fit the log: {objection}")
        except BadRecord as error:
            self.damage = error.what, error.advice
        else:
            self.add(record, entry.id.epoch)

    def snapshot(self) -> bytes:
        return _encode(self)

    def restore(self, data: bytes) -> None:
        try:
            found = _decode(data)
        except msgspec.MsgspecError as error:
            raise BadRecord(f"this is no index of a database: {error}") from None
        for name in self.__struct_fields__:
            setattr(self, name, getattr(found, name))
        if any(_decode_older(data).catalog.values()):
            older = tables_in_the_log("the index of the log")
            self.damage = older.what, older.advice

    def clone(self) -> Self:
        return clone_plain(self)

    def fingerprint(self) -> bytes:
        return fingerprint(self)

    # Looking

    def has_clock_at(self, clock: Clock) -> bool:
        """Whether what was committed at a clock has one for its readers."""
        place = bisect_right(self.turned_at, clock)
        return place == 0 or self.turned_on[place - 1]

    def objection(self, record: LogRecord) -> str | None:
        """Why a record cannot be the next one of this log; None when it can. For what a disk gives back."""
        if record.clock <= self.places.newest:
            return f"its clock {record.clock} is not above {self.places.newest}"
        if isinstance(record, StreamRecord):
            return (
                f"there is a stream {record.name} already" if record.name in self.streams else None
            )
        if isinstance(record, FeedOrdered):
            strange = [name for name in record.streams if name not in self.streams]
            return f"there is no stream {strange[0]}" if strange else None
        if isinstance(record, ClockTurned):
            return None
        if isinstance(record, CompactedRecord):
            names = [each.change.stream for each in record.changes]
            strange = [name for name in names if name not in self.streams]
            return f"there is no stream {strange[0]}" if strange else None
        return self._objection_to_changes(record)

    def _objection_to_changes(self, record: CommittedRecord) -> str | None:
        if not record.changes:
            return "it changes nothing"
        seen: dict[tuple[StreamName, ShardId], int] = {}
        for change in record.changes:
            stream = self.streams.get(change.stream)
            if stream is None or not 0 <= change.shard < stream.shards:
                return f"there is no shard {change.shard} of a stream {change.stream}"
            place = (change.stream, change.shard)
            expected = stream.next_offset(change.shard) + seen.get(place, 0)
            if change.offset != expected:
                return f"{change.stream} goes on at {expected}, not at {change.offset}"
            seen[place] = seen.get(place, 0) + 1
        return None

    def add(self, record: LogRecord, epoch: Epoch) -> None:
        """Take in the next record of the log."""
        assert record.clock > self.places.newest, "S2: clocks rise along the log"
        sequence = self.places.stop
        self.places.add(
            record.clock, len(record.changes) if isinstance(record, CommittedRecord) else 0
        )
        self.records += 1
        self.newest_record = record.clock
        if isinstance(record, StreamRecord):
            self.streams[record.name] = StreamState(
                record.name,
                record.shards,
                record.schema,
                record.clock,
                entries=[[] for _ in range(record.shards)],
                firsts=[0] * record.shards,
                key_hash=record.key_hash,
            )
        elif isinstance(record, CommittedRecord):
            self._add_changes(record, epoch, sequence)
        elif isinstance(record, FeedOrdered):
            for name in record.streams:
                self.streams[name].rules.apply(record.order)
        elif isinstance(record, CompactedRecord):
            self._add_compacted(record, sequence)
        else:
            self.turned_at.append(record.clock)
            self.turned_on.append(record.is_on)

    def _add_changes(self, record: CommittedRecord, epoch: Epoch, sequence: int) -> None:
        for index, change in enumerate(record.changes):
            stream = self.streams[change.stream]
            assert stream.next_offset(change.shard) == change.offset, "S3: a shard has no gap"
            stream.entries[change.shard].append(sequence)
            stream.set_latest(change.key, LatestChange(record.clock, sequence, index))
        if record.changes[0].op != "append":
            self._remember(record)
        if record.token is not None:
            change = record.changes[0]
            use = token_use(record, record.token, epoch)
            self.streams[change.stream].tokens[record.token.producer] = use

    def _add_compacted(self, record: CompactedRecord, sequence: int) -> None:
        """What it carries is there from now on, unless there is something newer."""
        self.compacted[sequence] = len(record.changes)
        for index, each in enumerate(record.changes):
            stream, key = self.streams[each.change.stream], each.change.key
            latest = stream.latest.get(key)
            if latest is not None and latest.clock == each.clock:
                stream.set_latest(key, LatestChange(each.clock, sequence, index))

    def forget(self, before: int) -> None:
        """The log will not keep what is before this record: no feed shows it, and no key needs it (S7)."""
        self.places.forget(before)
        self.compacted = {at: count for at, count in self.compacted.items() if at >= before}
        for stream in self.streams.values():
            stream.forget(before)

    def _remember(self, record: CommittedRecord) -> None:
        known = self.transactions
        known[record.transaction] = record.clock
        if len(known) > outcomes_remembered:
            del known[next(iter(known))]


def token_use(record: CommittedRecord, token: Token, epoch: Epoch) -> TokenUse:
    """What an append under a token has come to."""
    change = record.changes[0]
    return TokenUse(token.number, change.shard, epoch, change.offset, record.clock)


class OlderIndex(msgspec.Struct):
    """What the index of an earlier development version had besides: tables and ordered writers."""

    catalog: dict[str, dict[str, msgspec.Raw]] = msgspec.field(default_factory=dict)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Index).decode
_decode_older = msgspec.msgpack.Decoder(OlderIndex).decode
