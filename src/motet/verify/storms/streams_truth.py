"""What one shard has committed, as whoever sees everything knows it: one order, from the first entry on.

An entry belongs to it as soon as any replica takes it for committed. From then on nothing in it may change,
whatever becomes of the replicas.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.shardlog.entry import NO_ENTRY, Entry, EntryId, EntryKind
from motet.core.streams.entries import Chunk, Records, decode_records, record_range, unbatched
from motet.ids import Epoch, NodeId, Offset, ShardName


class Truth(msgspec.Struct):
    """One shard."""

    shard: ShardName
    #: ids[n] is the committed entry at offset n
    ids: list[EntryId] = msgspec.field(default_factory=lambda: [NO_ENTRY])
    #: every entry that was ever in any log
    entries: dict[EntryId, Entry] = msgspec.field(default_factory=dict)
    #: of the next record that will be committed
    next_record: Offset = Offset(0)
    #: first record of an entry, or of one in a batch -> the entry
    by_record: dict[Offset, Entry] = msgspec.field(default_factory=dict)
    #: first record of a chunk -> the chunk and its entry
    chunks: dict[Offset, tuple[Chunk, EntryId]] = msgspec.field(default_factory=dict)
    tokens: dict[tuple[str, int], Offset] = msgspec.field(default_factory=dict)
    #: records below this one were acknowledged to a client
    acknowledged: Offset = Offset(0)
    #: every log that anybody has had was complete from this entry on
    kept_from: Offset = Offset(1)
    #: applied entries -> a digest of the state
    states: dict[Offset, bytes] = msgspec.field(default_factory=dict)
    #: epoch -> who was elected in it
    leaders: dict[Epoch, NodeId] = msgspec.field(default_factory=dict)
    #: it has been deleted, or is about to be
    is_deleted: bool = False
    #: its stream was deleted, and created again by a request that came late
    is_again: bool = False

    @property
    def head(self) -> Offset:
        return Offset(len(self.ids) - 1)

    def add(self, entry: EntryId) -> list[str]:
        """The next committed entry; what is wrong with it."""
        self.ids.append(entry)
        content = self.entries.get(entry)
        if content is None:
            return [f"{entry} is committed, and nobody has seen it"]
        return [wrong for each in unbatched(content) for wrong in self._add(each)]

    def _add(self, entry: Entry) -> list[str]:
        if entry.kind == EntryKind.RECORDS:
            return self._add_records(entry, decode_records(entry.body))
        place = record_range(entry)
        return [] if place is None else self._add_changes(entry, *place)

    def _add_changes(self, entry: Entry, first: Offset, count: int) -> list[str]:
        self.by_record[self.next_record] = entry
        expected, self.next_record = self.next_record, Offset(self.next_record + count)
        return [] if first == expected else [f"{entry.id} begins with {first}, not {expected}"]

    def _add_records(self, content: Entry, records: Records) -> list[str]:
        found, entry = [], content.id
        if records.first_offset != self.next_record:
            found.append(
                f"{entry} begins with record {records.first_offset}, not {self.next_record}"
            )
        self.by_record[self.next_record] = content
        for chunk in records.chunks:
            self.chunks[self.next_record] = chunk, entry
            if chunk.token is not None:
                key = (chunk.token.producer, chunk.token.number)
                if key in self.tokens:
                    found.append(f"{entry} has token {key} again")
                self.tokens[key] = self.next_record
            self.next_record = Offset(self.next_record + chunk.count)
        return found

    def entry_with(self, record: Offset) -> Entry | None:
        """The entry that holds a record, if it is committed."""
        if record >= self.next_record:
            return None
        return self.by_record[max(first for first in self.by_record if first <= record)]

    def clock_of(self, entry: EntryId) -> Clock | None:
        content = self.entries.get(entry)
        return None if content is None else content.clock
