"""A moment of some tables: which parts they had at one clock. It can be read again and again.

A part that was visible at a clock stays visible at that clock, so a snapshot holds on to nothing on the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from motet.core.clock.hlc import Clock
from motet.core.tables.messages import TableIs, VisiblePart
from motet.core.tables.records import TableSpec
from motet.format.manifest import part_key
from motet.ids import ObjectKey, TableName


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """One table at a clock."""

    spec: TableSpec
    clock: Clock
    #: oldest first
    parts: tuple[VisiblePart, ...]

    @property
    def schema(self) -> Any:
        """Its ``pyarrow.Schema``."""
        from motet.columnar.schema import decode_schema

        return decode_schema(self.spec.schema)

    @property
    def rows(self) -> int:
        """Rows in its parts; of a table that replaces, also those that were replaced."""
        return sum(visible.part.staged.rows for visible in self.parts)

    def files(self) -> list[tuple[ObjectKey, int]]:
        """The files of its parts in the part store, and their sizes in bytes."""
        staged = [visible.part.staged for visible in self.parts]
        return [(part_key(part.table_id, part.id, part.file), part.size_bytes) for part in staged]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Several tables at one clock."""

    clock: Clock
    tables: Mapping[TableName, TableSnapshot]

    def __getitem__(self, table: str) -> TableSnapshot:
        return self.tables[TableName(table)]


def table_snapshot(answer: TableIs) -> TableSnapshot:
    """What a node said, as a snapshot."""
    return TableSnapshot(answer.spec, answer.clock, answer.parts)
