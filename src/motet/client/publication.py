"""What users see of tables: what there is, what was published, and what a version shows.

A *version* names a state of all tables, before and after merges alike. What was published is visible from its
version on; a snapshot is some tables at one version, and can be read again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import StagedPart
from motet.core.mergetree.version import Version
from motet.core.metadata.definitions import TableDefinition
from motet.core.metadata.table_settings import TableSettings
from motet.errors import BadInput
from motet.ids import PartId, TableId, TableName, WriterName


class TableInfo(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a table."""

    name: TableName
    definition: TableDefinition
    #: of each shard
    replicas: int
    #: by the keeper's clock
    created_ms: int
    #: None while a shard cannot be asked
    parts: int | None
    rows: int | None
    size_bytes: int | None
    settings: TableSettings = TableSettings()


class Publication(msgspec.Struct, frozen=True, array_like=True):
    """Parts that became visible together."""

    #: since when
    version: Version
    #: their names in their shards; none of a repeated publication
    parts: tuple[str, ...]
    #: it had been done before; this time nothing was changed
    duplicate: bool
    rows: int


class TablePart(msgspec.Struct, frozen=True, array_like=True):
    """A part that is held by replicas of its table, and that nobody sees yet; it can be pickled."""

    table: TableName
    #: the table it was made for, in case another one has taken its name
    table_id: TableId
    #: of the table's definition, when it was made
    definition_version: int
    staged: StagedPart

    @property
    def id(self) -> PartId:
        return self.staged.header.id

    @property
    def shard(self) -> int:
        return self.staged.shard

    @property
    def rows(self) -> int:
        return self.staged.header.rows

    @property
    def size_bytes(self) -> int:
        """Of its file."""
        return self.staged.header.size_bytes


def checked_parts(parts: object) -> tuple[TablePart, ...]:
    """Staged parts as a caller hands them in: one, several, or the lists that ``stage`` gave."""
    if isinstance(parts, TablePart):
        return (parts,)
    if not isinstance(parts, Iterable) or isinstance(parts, str | bytes):
        raise BadInput(f"{type(parts).__name__} is not what `stage` gives back")
    return tuple(part for each in parts for part in checked_parts(each))


class NodeFiles(msgspec.Struct, frozen=True):
    """Where a node has the files of its parts: in a folder, and behind the HTTP port beside its endpoint."""

    folder: str
    #: what is in ``.store`` of that folder: it tells it from one of the same name on another machine
    token: str
    #: native; empty while it serves nobody
    endpoint: str = ""


class PartLocation(msgspec.Struct, frozen=True):
    """The file of a part, and which nodes have it; it can be pickled, and opened by another process."""

    table: TableId
    shard: int
    header: PartHeader
    #: who has listed it first
    nodes: tuple[NodeFiles, ...]


class ShownPart(msgspec.Struct, frozen=True, array_like=True):
    """A part of a snapshot."""

    #: in its shard
    name: str
    location: PartLocation

    @property
    def id(self) -> PartId:
        return self.location.header.id

    @property
    def shard(self) -> int:
        return self.location.shard

    @property
    def partition(self) -> str:
        return self.location.header.partition

    @property
    def rows(self) -> int:
        return self.location.header.rows

    @property
    def size_bytes(self) -> int:
        return self.location.header.size_bytes


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """One table at a version."""

    name: TableName
    definition: TableDefinition
    version: Version
    #: of each shard oldest first
    parts: tuple[ShownPart, ...]

    @property
    def schema(self) -> Any:
        """Its ``pyarrow.Schema``."""
        from motet.columnar.schema import decode_schema

        return decode_schema(self.definition.schema)

    @property
    def rows(self) -> int:
        """Rows in its parts; of a table that replaces, also those that were replaced."""
        return sum(part.rows for part in self.parts)

    def files(self) -> list[PartLocation]:
        """The files of its parts."""
        return [part.location for part in self.parts]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Several tables at one version."""

    version: Version
    tables: Mapping[TableName, TableSnapshot]

    def __getitem__(self, table: str) -> TableSnapshot:
        return self.tables[TableName(table)]


class WriterInfo(msgspec.Struct, frozen=True, array_like=True):
    """How far an ordered writer is."""

    writer: WriterName
    #: its last step, and the version at which that was published; None when it has not published yet
    step: WriterStep | None
    version: Version | None
    #: when it published last, and when it said something, by the keeper's clock
    published_ms: int
    noted_ms: int
    #: rows and steps it has published
    rows: int
    steps: int
    #: those of them that are still there
    tables: tuple[TableName, ...]
    #: its last error; empty when all is well
    error: str
