"""A record of the log: what it can say, and the entry of the shard log that it is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.onelog.change import (
    ClockTurned,
    Committed,
    Compacted,
    FeedOrdered,
    StreamCreated,
    decode_clock_turned,
    decode_committed,
    decode_compacted,
    decode_feed_ordered,
    decode_stream_created,
)
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.tables.records import (
    Published,
    TableCreated,
    TableRecord,
    WriterNoted,
    decode_published,
    decode_table_created,
    decode_writer_noted,
)
from motet.errors import BadRecord

LogRecord = StreamCreated | Committed | FeedOrdered | ClockTurned | Compacted | TableRecord

KINDS: dict[type[LogRecord], EntryKind] = {
    StreamCreated: EntryKind.STREAM_CREATED,
    Committed: EntryKind.COMMITTED,
    ClockTurned: EntryKind.CLOCK_TURNED,
    TableCreated: EntryKind.TABLE_CREATED,
    Published: EntryKind.PUBLISHED,
    WriterNoted: EntryKind.WRITER_NOTED,
    FeedOrdered: EntryKind.FEED_ORDERED,
    Compacted: EntryKind.CHANGES_COMPACTED,
}
_DECODERS: dict[int, Callable[[bytes], LogRecord]] = {
    EntryKind.STREAM_CREATED: decode_stream_created,
    EntryKind.COMMITTED: decode_committed,
    EntryKind.CLOCK_TURNED: decode_clock_turned,
    EntryKind.TABLE_CREATED: decode_table_created,
    EntryKind.PUBLISHED: decode_published,
    EntryKind.WRITER_NOTED: decode_writer_noted,
    EntryKind.FEED_ORDERED: decode_feed_ordered,
    EntryKind.CHANGES_COMPACTED: decode_compacted,
}


def decode_record(entry: Entry) -> LogRecord:
    """What an entry says; ``BadRecord`` for a kind from the future or a body that is not one."""
    decode = _DECODERS.get(entry.kind)
    if decode is None:
        raise BadRecord(
            f"entry {entry.id.offset} of the log has kind {entry.kind}",
            hint="it was written by a newer version: use that one",
        )
    try:
        return decode(entry.body)
    except msgspec.MsgspecError as error:
        raise BadRecord(f"entry {entry.id.offset} of the log cannot be read: {error}") from None
