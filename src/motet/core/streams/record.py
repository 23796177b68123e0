"""A record of the log: what it can say, and its bytes."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import msgspec

from motet.core.streams.change import (
    Committed,
    StreamCreated,
    decode_committed,
    decode_stream_created,
)
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
from motet.format.journal import Record

LogRecord = StreamCreated | Committed | TableRecord


class RecordKind(IntEnum):
    """What a record of the log says; never given away twice."""

    STREAM_CREATED = 1
    COMMITTED = 2
    TABLE_CREATED = 3
    PUBLISHED = 4
    WRITER_NOTED = 5


KINDS: dict[type[LogRecord], RecordKind] = {
    StreamCreated: RecordKind.STREAM_CREATED,
    Committed: RecordKind.COMMITTED,
    TableCreated: RecordKind.TABLE_CREATED,
    Published: RecordKind.PUBLISHED,
    WriterNoted: RecordKind.WRITER_NOTED,
}
_DECODERS: dict[int, Callable[[bytes], LogRecord]] = {
    RecordKind.STREAM_CREATED: decode_stream_created,
    RecordKind.COMMITTED: decode_committed,
    RecordKind.TABLE_CREATED: decode_table_created,
    RecordKind.PUBLISHED: decode_published,
    RecordKind.WRITER_NOTED: decode_writer_noted,
}


def decode_record(record: Record) -> LogRecord:
    """What a record says; ``BadRecord`` for a kind from the future or a body that is not one."""
    decode = _DECODERS.get(record.kind)
    if decode is None:
        raise BadRecord(
            f"record {record.sequence} of the log has kind {record.kind}",
            hint="it was written by a newer version: use that one",
        )
    try:
        return decode(record.body)
    except msgspec.MsgspecError as error:
        raise BadRecord(f"record {record.sequence} of the log cannot be read: {error}") from None
