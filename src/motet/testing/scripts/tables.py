"""Golden scripts about the tables of one node, ``n1``: all that streams have, and these.

A part is ``TABLE:ROWS``, or ``TABLE/SHARD:ROWS``; it is taken for one whose files are durable. A step of an
ordered writer is ``WRITER:EPOCH:AFTER:THROUGH``, where ``-`` is no clock::

    create-table sales
    create-table stock shards=2
    publish sales:10 stock/1:3 step=shop:0:-:(1000,5)
    read-table sales

The part also checks what no single line can show, over all incarnations: what a table was at a clock it is
for ever, and what was confirmed is there, in each of its tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from motet.core.clock.hlc import Clock
from motet.core.machine import Message
from motet.core.onelog.messages import FeedSplit, SplitFeed
from motet.core.tables.messages import (
    CreateTable,
    ListTables,
    ListWriters,
    NoteWriter,
    Publish,
    PublishDone,
    ReadTable,
    ReadWriter,
    TableIs,
    TableReady,
    TablesAre,
    VisiblePart,
    WriterInfo,
    WriterIs,
    WriterNotedDone,
    WritersAre,
)
from motet.core.tables.records import InsertToken, StagedPart, TableSpec, WriterStep
from motet.ids import PartId, RequestId, ShardId, StreamName, TableId, TableName, WriterName
from motet.testing.part import Converter, verb
from motet.testing.scripts.streams import StreamsStorm

FILE = f"0-{'0' * 32}"
NOWHERE = TableId("0" * 16)

_PART = re.compile(r"([^:/]+)(?:/(-?\d+))?:(-?\d+)")
_STEP = re.compile(r"([^:]*):(-?\d+):([^:]+):([^:]+)")


def _step(text: str) -> WriterStep:
    match = _STEP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no step WRITER:EPOCH:AFTER:THROUGH")
    writer, epoch, after, through = match.groups()
    begin = None if after == "-" else Clock.parse(after)
    return WriterStep(WriterName(writer), int(epoch), begin, Clock.parse(through))


def _unplaced(text: str) -> StagedPart:
    """A part as a script names it: which table and which part it is of is filled in later."""
    match = _PART.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no part TABLE/SHARD:ROWS")
    table, shard, rows = match.groups()
    place = (TableName(table), NOWHERE, PartId(""), ShardId(int(shard or 0)))
    return StagedPart(*place, FILE, int(rows), 100)


class TablesPart(StreamsStorm):
    """Commands for tables."""

    name = "tables"
    converters: ClassVar[Mapping[type, Converter]] = {
        **StreamsStorm.converters,
        WriterStep: _step,
        StagedPart: _unplaced,
    }

    def __init__(self) -> None:
        super().__init__()
        self.tables_made = 0
        self.parts_made = 0
        #: the id that a table has, once the node has said so
        self.ids: dict[TableName, TableId] = {}
        self.publishes: dict[RequestId, Publish] = {}
        #: table → the clock of each of its parts that was confirmed
        self.confirmed: dict[TableName, list[Clock]] = {}
        #: (table, clock) → what it was there
        self.snapshots: dict[tuple[TableName, Clock], tuple[VisiblePart, ...]] = {}

    # Writing

    @verb
    def create_table(
        self,
        name: str,
        *,
        schema: str = "schema",
        order_by: str = "key",
        shards: int = 1,
        engine: Literal["merge", "replacing"] = "merge",
        version: str | None = None,
        tombstone: str | None = None,
        table_id: str | None = None,
    ) -> list[str]:
        """Create a table; order-by=a,b and an id of its own, unless one is given."""
        self.tables_made += 1
        identity = TableId(table_id or f"{self.tables_made:016x}")
        columns = tuple(order_by.split(",")) if order_by else ()
        what = (schema.encode(), columns, shards, engine, version, tombstone)
        return self._ask(CreateTable(self._request(), TableSpec(TableName(name), identity, *what)))

    @verb
    def publish(
        self,
        *parts: StagedPart,
        token: str | None = None,
        of: str | None = None,
        step: WriterStep | None = None,
        table_id: str | None = None,
    ) -> list[str]:
        """Make parts visible together; a token is of the first part's table, or of= another one."""
        staged = tuple(self._staged(part, table_id) for part in parts)
        table = staged[0].table if of is None and staged else TableName(of or "")
        named = None if token is None else InsertToken(table, token)
        message = Publish(self._request(), staged, named, step)
        self.publishes[message.request] = message
        return self._ask(message)

    @verb
    def note(self, writer: str, error: str) -> list[str]:
        """An ordered writer says how it fares."""
        return self._ask(NoteWriter(self._request(), WriterName(writer), error))

    # Reading

    @verb
    def read_table(self, name: str, *, at: Clock | None = None) -> list[str]:
        """The parts of a table, now or at a clock."""
        return self._ask(ReadTable(self._request(), TableName(name), at))

    @verb
    def tables(self) -> list[str]:
        """All tables."""
        return self._ask(ListTables(self._request()))

    @verb
    def writer(self, name: str) -> list[str]:
        """How far an ordered writer is."""
        return self._ask(ReadWriter(self._request(), WriterName(name)))

    @verb
    def writers(self) -> list[str]:
        """How far all ordered writers are."""
        return self._ask(ListWriters(self._request()))

    @verb
    def split(
        self,
        *streams: str,
        after: Clock | None = None,
        up_to: Clock | None = None,
        changes_max: int | None = None,
        splits: int = 1,
    ) -> list[str]:
        """Where to cut the feed."""
        names = tuple(StreamName(name) for name in streams)
        message = SplitFeed(self._request(), names, after, up_to, changes_max, splits)
        return self._ask(message)

    # How

    def _staged(self, part: StagedPart, table_id: str | None) -> StagedPart:
        self.parts_made += 1
        of_table = TableId(table_id or self.ids.get(part.table, NOWHERE))
        identity = PartId(f"{self.parts_made:016x}")
        return StagedPart(
            part.table, of_table, identity, part.shard, part.file, part.rows, part.size_bytes
        )

    def _told(self, answer: Message) -> list[str]:
        match answer:
            case TableReady(request=request, created=created, spec=spec):
                self.ids[spec.name] = spec.id
                is_new = "created" if created else "was there"
                return [f"#{request} {spec.name} {is_new}, id {spec.id}, {spec.shards} shards"]
            case PublishDone(request=request, clock=clock, duplicate=duplicate, names=names):
                if not duplicate:
                    for part in self.publishes[request].parts:
                        self.confirmed.setdefault(part.table, []).append(clock)
                done = "had been published" if duplicate else "published"
                return [f"#{request} {done} {' '.join(map(str, names)) or 'nothing'} at {clock}"]
            case WriterNotedDone(request=request, clock=clock):
                return [f"#{request} noted at {clock}"]
            case FeedSplit(request=request, bounds=bounds, changes=changes):
                ends = " ".join(map(str, bounds))
                return [f"#{request} {changes} changes up to {ends}, {answer.changes_after} behind"]
            case _:
                return self._told_tables(answer)

    def _told_tables(self, answer: Message) -> list[str]:
        match answer:
            case TableIs(request=request, spec=spec, clock=clock, parts=parts):
                self._check_visible_at(spec.name, clock, parts)
                rows = sum(each.part.staged.rows for each in parts)
                head = f"#{request} {spec.name} at {clock}: {len(parts)} parts, {rows} rows"
                return [head, *(f"  {_shown_part(each)}" for each in parts)]
            case TablesAre(request=request, tables=tables):
                listed = [f"  {t.spec.name}: {t.parts} parts, {t.rows} rows" for t in tables]
                return [f"#{request} {len(tables)} tables", *listed]
            case WriterIs(request=request, info=info):
                return [f"#{request} {'nobody' if info is None else _shown_writer(info)}"]
            case WritersAre(request=request, writers=writers):
                head = f"#{request} {len(writers)} writers"
                return [head, *(f"  {_shown_writer(each)}" for each in writers)]
        return super()._told(answer)

    def _check_visible_at(
        self, table: TableName, clock: Clock, parts: tuple[VisiblePart, ...]
    ) -> None:
        before = self.snapshots.setdefault((table, clock), parts)
        assert parts == before, f"{table} at {clock} is not what it was"
        shown = [each.clock for each in parts]
        assert all(since <= clock for since in shown), f"{table} shows what is above {clock}"
        confirmed = [since for since in self.confirmed.get(table, ()) if since <= clock]
        lost = [since for since in confirmed if shown.count(since) < confirmed.count(since)]
        assert not lost, f"{table} at {clock} lacks what was published at {lost[0]}"


def _shown_part(visible: VisiblePart) -> str:
    part, step = visible.part, visible.step
    by = "" if step is None else f", by {_shown_step(step)}"
    return (
        f"{part.name} of shard {part.staged.shard}, {part.staged.rows} rows,"
        f" since {visible.clock}{by}"
    )


def _shown_step(step: WriterStep) -> str:
    return f"{step.writer} {step.epoch}: {step.after or '-'}…{step.through}"


def _shown_writer(info: WriterInfo) -> str:
    step = "no step" if info.step is None else _shown_step(info.step)
    error = f", error {info.error}" if info.error else ""
    tables = " ".join(info.tables) or "no tables"
    return (
        f"{info.writer}, {step}, {info.steps} steps, {info.rows} rows in {tables},"
        f" published {info.published_ms}, noted {info.noted_ms}{error}"
    )
