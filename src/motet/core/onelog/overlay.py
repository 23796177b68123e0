"""What the records under way will change, so that the next request is judged as if they were durable.

Requests are put into the log one after the other without waiting for the disk. A transaction must see that
another one, still being written, has changed what it read; an entry must get the offset after one that
is still being written. When a write fails, everything after it fails too, and the overlay is emptied.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.fingerprint import clone_plain
from motet.core.metadata.definitions import KeyHash
from motet.core.onelog.index import Index, TokenUse, token_use
from motet.core.onelog.record import (
    ClockTurned,
    CommittedRecord,
    CompactedRecord,
    FeedOrdered,
    LogRecord,
    StreamRecord,
)
from motet.core.streams.orders import FeedRules
from motet.ids import Epoch, Offset, ShardId, StreamName


class Overlay(msgspec.Struct):
    """Pending effects on streams, offsets, keys and tokens; pending orders and turns."""

    streams: dict[StreamName, StreamRecord] = msgspec.field(default_factory=dict)
    #: (stream, shard) -> entries under way
    entries: dict[tuple[StreamName, ShardId], int] = msgspec.field(default_factory=dict)
    #: (stream, key) -> the clock of its newest change under way
    keys: dict[tuple[StreamName, bytes], Clock] = msgspec.field(default_factory=dict)
    #: (stream, producer) -> its newest append under way
    tokens: dict[tuple[StreamName, str], TokenUse] = msgspec.field(default_factory=dict)
    #: oldest first
    orders: list[FeedOrdered] = msgspec.field(default_factory=list)
    #: turns of clock visibility; oldest first
    turns: list[ClockTurned] = msgspec.field(default_factory=list)

    def clear(self) -> None:
        """Nothing is under way any more."""
        for field in self.__struct_fields__:
            getattr(self, field).clear()

    def has_clock(self, index: Index) -> bool:
        """Whether what is put into the log now has a clock for its readers."""
        return self.turns[-1].is_on if self.turns else index.has_clock_at(index.places.newest)

    def sharding(self, index: Index, stream: StreamName) -> tuple[int, KeyHash] | None:
        """How many shards a stream has, and its hash; None when there is no such stream."""
        found = index.streams.get(stream) or self.streams.get(stream)
        return None if found is None else (found.shards, found.key_hash)

    def next_offset(self, index: Index, stream: StreamName, shard: ShardId) -> Offset:
        """Where the next entry of a shard goes."""
        known = index.streams.get(stream)
        durable = 0 if known is None else known.next_offset(shard)
        return Offset(durable + self.entries.get((stream, shard), 0))

    def seen(self, index: Index, stream: StreamName, key: bytes) -> Clock | None:
        """The clock of the newest change of a key, None if it never had one."""
        pending = self.keys.get((stream, key))
        if pending is not None:
            return pending
        known = index.streams.get(stream)
        latest = None if known is None else known.latest.get(key)
        return None if latest is None else latest.clock

    def token(self, index: Index, stream: StreamName, producer: str) -> TokenUse | None:
        """The newest append of a producer."""
        pending = self.tokens.get((stream, producer))
        if pending is not None:
            return pending
        known = index.streams.get(stream)
        return None if known is None else known.tokens.get(producer)

    def rules(self, index: Index, stream: StreamName) -> FeedRules:
        """What is kept of the feed of a stream that there is."""
        known = index.streams.get(stream)
        rules = FeedRules() if known is None else known.rules
        ahead = [each.order for each in self.orders if stream in each.streams]
        if not ahead:
            return rules
        rules = clone_plain(rules)
        for order in ahead:
            rules.apply(order)
        return rules

    def add(self, record: LogRecord, epoch: Epoch) -> None:
        """A record is under way."""
        if isinstance(record, StreamRecord):
            self.streams[record.name] = record
        elif isinstance(record, CommittedRecord):
            self._add_changes(record, epoch)
        elif isinstance(record, FeedOrdered):
            self.orders.append(record)
        elif isinstance(record, ClockTurned):
            self.turns.append(record)
        else:
            assert isinstance(record, CompactedRecord), "it changes nothing that is judged by"

    def _add_changes(self, record: CommittedRecord, epoch: Epoch) -> None:
        for change in record.changes:
            place = (change.stream, change.shard)
            self.entries[place] = self.entries.get(place, 0) + 1
            self.keys[change.stream, change.key] = record.clock
        if record.token is not None:
            change = record.changes[0]
            use = token_use(record, record.token, epoch)
            self.tokens[change.stream, record.token.producer] = use

    def remove(self, record: LogRecord) -> None:
        """A record is durable: what it changed is in the index now, unless a newer one is under way."""
        if isinstance(record, StreamRecord):
            del self.streams[record.name]
        elif isinstance(record, CommittedRecord):
            self._remove_changes(record)
        elif isinstance(record, FeedOrdered):
            assert self.orders[0] == record, "records become durable in their order"
            del self.orders[0]
        elif isinstance(record, ClockTurned):
            del self.turns[0]

    def _remove_changes(self, record: CommittedRecord) -> None:
        for change in record.changes:
            place = (change.stream, change.shard)
            left = self.entries.pop(place) - 1
            if left:
                self.entries[place] = left
            if self.keys.get((change.stream, change.key)) == record.clock:
                del self.keys[change.stream, change.key]
        if record.token is not None:
            key = (record.changes[0].stream, record.token.producer)
            if self.tokens[key].clock == record.clock:
                del self.tokens[key]
