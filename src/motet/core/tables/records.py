"""What the log says about tables: that one was created, that parts became visible, how a writer fares.

A part's rows are in its files; the log names them. ``Published`` is one record, so parts of several tables
become visible together or not at all, and an ordered writer's epoch is set in the same step.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep as WriterStep  # noqa: PLC0414 - others import it from here until tables of folders end
from motet.core.tables.part_name import PartName
from motet.ids import PartId, ShardId, TableId, TableName, WriterName

Engine = Literal["merge", "replacing"]


class TableSpec(msgspec.Struct, frozen=True, array_like=True):
    """What a table is: said when it is created, and never changed."""

    name: TableName
    id: TableId
    #: an Arrow schema as its IPC bytes
    schema: bytes
    order_by: tuple[str, ...]
    shards: int
    engine: Engine
    #: ``replacing``: of the rows of one key the one with the highest value of this column stays
    version: str | None
    #: ``replacing``: a boolean column; a key whose latest row says true is not there
    tombstone: str | None

    def is_same(self, other: TableSpec) -> bool:
        """Whether the other one describes a table just like this one."""
        return msgspec.structs.replace(other, id=self.id) == self


class StagedPart(msgspec.Struct, frozen=True, array_like=True):
    """A part whose files are durable, and that nobody sees yet."""

    table: TableName
    #: the table it was made for, in case another one has taken its name
    table_id: TableId
    id: PartId
    shard: ShardId
    #: the name of its Parquet file, ``<n>-<hash>``
    file: str
    rows: int
    size_bytes: int


class PublishedPart(msgspec.Struct, frozen=True, array_like=True):
    """A part that has got its place in its table."""

    staged: StagedPart
    name: PartName


class InsertToken(msgspec.Struct, frozen=True, array_like=True):
    """Names an insert so that a retry is recognised; of one table."""

    table: TableName
    text: str


class TableCreated(msgspec.Struct, frozen=True, array_like=True):
    """A table begins."""

    clock: Clock
    spec: TableSpec


class Published(msgspec.Struct, frozen=True, array_like=True):
    """Parts became visible, all at once."""

    clock: Clock
    at_ms: int
    parts: tuple[PublishedPart, ...]
    token: InsertToken | None
    step: WriterStep | None


class WriterNoted(msgspec.Struct, frozen=True, array_like=True):
    """How an ordered writer fares: its last error, empty when all is well."""

    clock: Clock
    at_ms: int
    writer: WriterName
    error: str


TableRecord = TableCreated | Published | WriterNoted

decode_table_created = msgspec.msgpack.Decoder(TableCreated).decode
decode_published = msgspec.msgpack.Decoder(Published).decode
decode_writer_noted = msgspec.msgpack.Decoder(WriterNoted).decode
