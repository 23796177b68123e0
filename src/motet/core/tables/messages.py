"""What clients ask about tables, and the answers; part of the conversation with a node's streams."""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.onelog.conversation import StreamsMessage, StreamsRequest
from motet.core.tables.part_name import PartName
from motet.core.tables.records import InsertToken, PublishedPart, StagedPart, TableSpec, WriterStep
from motet.ids import RequestId, TableName, WriterName

# Requests


class CreateTable(StreamsRequest, frozen=True):
    """Create a table; the same again is fine, another one of that name is not."""

    spec: TableSpec


class ListTables(StreamsRequest, frozen=True):
    """Which tables are there, and how large are they?"""


class ReadTable(StreamsRequest, frozen=True):
    """Which parts does a table have, at a clock; now for None?"""

    table: TableName
    at: Clock | None = None


class Publish(StreamsRequest, frozen=True):
    """Make staged parts visible, all of them or none, once per token and in the order of the writer."""

    parts: tuple[StagedPart, ...]
    token: InsertToken | None = None
    step: WriterStep | None = None


class ReadWriter(StreamsRequest, frozen=True):
    """How far is an ordered writer?"""

    writer: WriterName


class ListWriters(StreamsRequest, frozen=True):
    """Which ordered writers are there, and how far are they?"""


class NoteWriter(StreamsRequest, frozen=True):
    """Remember an ordered writer's last error; empty when all is well."""

    writer: WriterName
    error: str


# Answers


class TableInfo(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a table."""

    spec: TableSpec
    created: Clock
    parts: int
    rows: int
    size_bytes: int


class TableReady(StreamsMessage, frozen=True):
    """The table is there."""

    request: RequestId
    created: bool
    spec: TableSpec


class TablesAre(StreamsMessage, frozen=True):
    """All tables."""

    request: RequestId
    tables: tuple[TableInfo, ...]


class VisiblePart(msgspec.Struct, frozen=True, array_like=True):
    """A part of a snapshot: when it became visible, and by which step of which writer."""

    part: PublishedPart
    clock: Clock
    step: WriterStep | None


class TableIs(StreamsMessage, frozen=True):
    """The parts of a table that were visible at a clock, oldest first."""

    request: RequestId
    spec: TableSpec
    clock: Clock
    parts: tuple[VisiblePart, ...]


class PublishDone(StreamsMessage, frozen=True):
    """The parts are visible, since this clock."""

    request: RequestId
    clock: Clock
    #: it had been done before: the parts are those of that time
    duplicate: bool
    names: tuple[PartName, ...]


class WriterInfo(msgspec.Struct, frozen=True, array_like=True):
    """How far an ordered writer is."""

    writer: WriterName
    #: its last step; None when it has not published yet
    step: WriterStep | None
    #: when it published last, and when it said something, in milliseconds of the node's wall clock
    published_ms: int
    noted_ms: int
    #: rows and steps it has published
    rows: int
    steps: int
    tables: tuple[TableName, ...]
    #: empty when all is well
    error: str


class WriterIs(StreamsMessage, frozen=True):
    """One ordered writer, None if nobody of that name has ever published or said anything."""

    request: RequestId
    info: WriterInfo | None


class WritersAre(StreamsMessage, frozen=True):
    """All ordered writers."""

    request: RequestId
    writers: tuple[WriterInfo, ...]


class WriterNotedDone(StreamsMessage, frozen=True):
    """It is remembered."""

    request: RequestId
    clock: Clock


TablesCall = CreateTable | ListTables | ReadTable | Publish | ReadWriter | ListWriters | NoteWriter
"""All requests about tables."""

TablesAnswer = (
    TableReady | TablesAre | TableIs | PublishDone | WriterIs | WritersAre | WriterNotedDone
)
"""All answers about them."""
