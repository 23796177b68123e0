"""What a node knows of its tables: a fold of the log, as the index of the streams is.

Nothing is ever taken out of it: a part that was visible at a clock stays visible at that clock, so a
snapshot is a clock and needs nothing to hold on to. What an ordered writer did last is never forgotten.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.tables.messages import TableInfo, VisiblePart, WriterInfo
from motet.core.tables.part_name import PartName
from motet.core.tables.records import (
    Published,
    PublishedPart,
    TableCreated,
    TableRecord,
    TableSpec,
    WriterNoted,
    WriterStep,
)
from motet.ids import PartId, ShardId, TableName, WriterName


class TokenDone(msgspec.Struct, frozen=True):
    """What was published under a token, or in one go with a part."""

    clock: Clock
    names: tuple[PartName, ...]


class TableState(msgspec.Struct, rename={"created": "born"}):
    """One table."""

    spec: TableSpec
    created: Clock
    #: next_block[shard] is the number that its next block gets
    next_block: list[int]
    #: oldest first; clocks[i] is the clock of parts[i]
    parts: list[VisiblePart] = msgspec.field(default_factory=list)
    clocks: list[Clock] = msgspec.field(default_factory=list)
    tokens: dict[str, TokenDone] = msgspec.field(default_factory=dict)
    #: where each part is in the list, so that none is published twice
    places: dict[PartId, int] = msgspec.field(default_factory=dict)
    rows: int = 0
    size_bytes: int = 0

    def info(self) -> TableInfo:
        return TableInfo(self.spec, self.created, len(self.parts), self.rows, self.size_bytes)

    def parts_at(self, clock: Clock) -> tuple[VisiblePart, ...]:
        """The parts that were visible at a clock."""
        return tuple(self.parts[: bisect_right(self.clocks, clock)])


class WriterState(msgspec.Struct):
    """One ordered writer."""

    name: WriterName
    step: WriterStep | None = None
    #: when it published last, as a clock of the log
    clock: Clock | None = None
    published_ms: int = 0
    noted_ms: int = 0
    rows: int = 0
    steps: int = 0
    tables: list[TableName] = msgspec.field(default_factory=list)
    error: str = ""

    def info(self) -> WriterInfo:
        return WriterInfo(
            self.name,
            self.step,
            self.published_ms,
            self.noted_ms,
            self.rows,
            self.steps,
            tuple(self.tables),
            self.error,
        )


class Catalog(msgspec.Struct):
    """All tables and ordered writers."""

    tables: dict[TableName, TableState] = msgspec.field(default_factory=dict)
    writers: dict[WriterName, WriterState] = msgspec.field(default_factory=dict)

    def add(self, record: TableRecord) -> None:
        """Take in the next record about tables."""
        if isinstance(record, TableCreated):
            blocks = [1] * record.spec.shards
            self.tables[record.spec.name] = TableState(record.spec, record.clock, blocks)
        elif isinstance(record, Published):
            self._add_published(record)
        else:
            writer = self._writer(record.writer)
            writer.error, writer.noted_ms = record.error, record.at_ms

    def _add_published(self, record: Published) -> None:
        for part in record.parts:
            table = self.tables[part.staged.table]
            shard = part.staged.shard
            assert part.name.min_block == table.next_block[shard], "T2: blocks count up"
            table.next_block[shard] = part.name.max_block + 1
            table.places[part.staged.id] = len(table.parts)
            table.parts.append(VisiblePart(part, record.clock, record.step))
            table.clocks.append(record.clock)
            table.rows += part.staged.rows
            table.size_bytes += part.staged.size_bytes
        if record.token is not None:
            names = tuple(part.name for part in record.parts)
            self.tables[record.token.table].tokens[record.token.text] = TokenDone(
                record.clock, names
            )
        if record.step is not None:
            self._add_step(record, record.step)

    def _add_step(self, record: Published, step: WriterStep) -> None:
        writer = self._writer(WriterName(step.writer))
        assert writer.step is None or step.through > writer.step.through, "T4: a writer goes on"
        writer.step, writer.clock, writer.published_ms = step, record.clock, record.at_ms
        writer.steps += 1
        for part in record.parts:
            writer.rows += part.staged.rows
            if part.staged.table not in writer.tables:
                writer.tables.append(part.staged.table)

    def _writer(self, name: WriterName) -> WriterState:
        return self.writers.setdefault(name, WriterState(name))

    def objection(self, record: TableRecord) -> str | None:
        """Why a record cannot be the next one; None when it can. For what a disk gives back."""
        if isinstance(record, TableCreated):
            name = record.spec.name
            return f"there is a table {name} already" if name in self.tables else None
        if isinstance(record, WriterNoted):
            return None
        seen: dict[tuple[TableName, ShardId], int] = {}
        for part in record.parts:
            objection = self._objection_to_part(part, seen)
            if objection is not None:
                return objection
        if record.token is not None:
            table = self.tables.get(record.token.table)
            if table is None or record.token.text in table.tokens:
                return f"its token {record.token.text!r} does not fit {record.token.table}"
        return self._objection_to_step(record.step)

    def _objection_to_part(
        self, part: PublishedPart, seen: dict[tuple[TableName, ShardId], int]
    ) -> str | None:
        staged = part.staged
        table = self.tables.get(staged.table)
        if table is None or not 0 <= staged.shard < table.spec.shards:
            return f"there is no shard {staged.shard} of a table {staged.table}"
        if staged.id in table.places:
            return f"part {staged.id} of {staged.table} is published already"
        place = (staged.table, staged.shard)
        expected = seen.get(place, table.next_block[staged.shard])
        if part.name.min_block != expected or part.name.max_block < expected:
            return f"{staged.table} goes on with block {expected}, not with {part.name}"
        seen[place] = part.name.max_block + 1
        return None

    def _objection_to_step(self, step: WriterStep | None) -> str | None:
        known = None if step is None else self.writers.get(WriterName(step.writer))
        if step is None or known is None or known.step is None:
            return None
        if step.through <= known.step.through:
            return f"{step.writer} was at {known.step.through} already, not at {step.through}"
        return None
