"""What a request about tables makes of the log: the record to be written, or an answer that needs none.

Called when a request's turn has come and it has its clock. It sees the tables
as they will be when all records under way are durable.

T1  A table is what it was created as, for ever.
T2  The blocks of a table's shard have numbers without a gap.
T3  A token of a table is applied once.
T4  An ordered writer goes forward: a step is applied only if it begins where the last one ended and has the
    next epoch; a step that ends where the writer has been already is a repetition and changes nothing.
T5  What is published in one step is visible as a whole or not at all.
T6  A part is published once; publishing the same parts again is a repetition and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from motet.core.clock.hlc import Clock
from motet.core.onelog.record import Answered, Planned
from motet.core.tables.catalog import Catalog, TokenDone
from motet.core.tables.messages import (
    CreateTable,
    NoteWriter,
    Publish,
    PublishDone,
    TableReady,
    VisiblePart,
    WriterNotedDone,
)
from motet.core.tables.part_name import of_block
from motet.core.tables.records import (
    InsertToken,
    Published,
    PublishedPart,
    StagedPart,
    TableCreated,
    TableRecord,
    TableSpec,
    WriterNoted,
    WriterStep,
)
from motet.errors import BadInput, NoSuchTable, TableExists, TooLarge, WriterFenced
from motet.ids import PartId, ShardId, TableName, WriterName
from motet.limits import table_parts_max, table_tokens_max, tables_max, writers_max

TableWrite = CreateTable | Publish | NoteWriter
"""The requests that want to write."""


class Ahead:
    """The tables as they will be when all that is under way is durable."""

    def __init__(self, catalog: Catalog, pending: Sequence[TableRecord]) -> None:
        self._catalog = catalog
        self._pending = pending
        #: the parts under way, once somebody has asked for one
        self._coming: dict[tuple[TableName, PartId], VisiblePart] | None = None

    def _published(self) -> list[Published]:
        return [record for record in self._pending if isinstance(record, Published)]

    def table_count(self) -> int:
        created = sum(isinstance(record, TableCreated) for record in self._pending)
        return len(self._catalog.tables) + created

    def created(self, name: TableName) -> TableCreated | None:
        """The record that created a table."""
        known = self._catalog.tables.get(name)
        if known is not None:
            return TableCreated(known.created, known.spec)
        for record in self._pending:
            if isinstance(record, TableCreated) and record.spec.name == name:
                return record
        return None

    def next_block(self, name: TableName, shard: ShardId) -> int:
        known = self._catalog.tables.get(name)
        behind = 1 if known is None else known.next_block[shard]
        for published in self._published():
            for part in published.parts:
                if (part.staged.table, part.staged.shard) == (name, shard):
                    behind = part.name.max_block + 1
        return behind

    def part_count(self, name: TableName) -> int:
        known = self._catalog.tables.get(name)
        count = 0 if known is None else len(known.parts)
        for published in self._published():
            count += sum(part.staged.table == name for part in published.parts)
        return count

    def token_done(self, token: InsertToken) -> TokenDone | None:
        known = self._catalog.tables.get(token.table)
        if known is not None and token.text in known.tokens:
            return known.tokens[token.text]
        for published in self._published():
            if published.token == token:
                names = tuple(part.name for part in published.parts)
                return TokenDone(published.clock, names)
        return None

    def part_done(self, part: StagedPart) -> VisiblePart | None:
        """The part as it was published, if it was."""
        known = self._catalog.tables.get(part.table)
        if known is not None and part.id in known.places:
            return known.parts[known.places[part.id]]
        if self._coming is None:
            self._coming = {
                (done.staged.table, done.staged.id): VisiblePart(done, each.clock, each.step)
                for each in self._published()
                for done in each.parts
            }
        return self._coming.get((part.table, part.id))

    def token_count(self, name: TableName) -> int:
        known = self._catalog.tables.get(name)
        count = 0 if known is None else len(known.tokens)
        for published in self._published():
            count += published.token is not None and published.token.table == name
        return count

    def last_step(self, writer: WriterName) -> tuple[WriterStep, Clock] | None:
        """The last step of a writer, and the clock of its record."""
        known = self._catalog.writers.get(writer)
        last = None
        if known is not None and known.step is not None and known.clock is not None:
            last = (known.step, known.clock)
        for published in self._published():
            if published.step is not None and published.step.writer == writer:
                last = (published.step, published.clock)
        return last

    def check_writer_room(self, writer: WriterName) -> None:
        """``TooLarge`` for one more ordered writer than there can be."""
        known = self._catalog.writers
        if writer in known:
            return
        coming = dict.fromkeys(map(_writer_of, self._pending))
        new = [name for name in coming if name not in (None, writer) and name not in known]
        if len(known) + len(new) >= writers_max:
            raise TooLarge(f"there are {writers_max} ordered writers already")


def _writer_of(record: TableRecord) -> WriterName | None:
    if isinstance(record, WriterNoted):
        return record.writer
    if isinstance(record, Published) and record.step is not None:
        return WriterName(record.step.writer)
    return None


def plan_table(ahead: Ahead, message: TableWrite, clock: Clock, wall_ms: int) -> Planned | Answered:
    """Decide; a ``MotetError`` refuses the request and changes nothing."""
    if isinstance(message, CreateTable):
        return _create(ahead, message, clock)
    if isinstance(message, Publish):
        return _publish(ahead, message, clock, wall_ms)
    ahead.check_writer_room(message.writer)
    record = WriterNoted(clock, wall_ms, message.writer, message.error)
    return Planned(record, WriterNotedDone(message.request, clock))


def _create(ahead: Ahead, message: CreateTable, clock: Clock) -> Planned | Answered:
    known = ahead.created(message.spec.name)
    if known is not None:
        if not known.spec.is_same(message.spec):
            differs = _difference(known.spec, message.spec)
            raise TableExists(f"the table {known.spec.name!r} exists already, with {differs}")
        return Answered(TableReady(message.request, False, known.spec), known.clock)
    if ahead.table_count() >= tables_max:
        raise BadInput(f"another table exceeds the limit of {tables_max}")
    answer = TableReady(message.request, True, message.spec)
    return Planned(TableCreated(clock, message.spec), answer)


def _difference(known: TableSpec, wanted: TableSpec) -> str:
    if known.schema != wanted.schema:
        return "another schema"
    for what in ("order_by", "engine", "version", "tombstone", "shards"):
        if getattr(known, what) != getattr(wanted, what):
            return f"{what} {getattr(known, what)!r}"
    return "another description"


def _publish(ahead: Ahead, message: Publish, clock: Clock, wall_ms: int) -> Planned | Answered:
    repeated = _repetition(ahead, message, clock)
    if repeated is not None:
        return repeated
    parts = _named(ahead, message.parts)
    record = Published(clock, wall_ms, parts, message.token, message.step)
    names = tuple(part.name for part in parts)
    return Planned(record, PublishDone(message.request, clock, False, names))


def _repetition(ahead: Ahead, message: Publish, clock: Clock) -> Answered | None:
    """The answer to what was done before, or is nothing at all."""
    token, step = message.token, message.step
    if token is not None:
        done = ahead.token_done(token)
        if done is not None:
            answer = PublishDone(message.request, done.clock, True, done.names)
            return Answered(answer, done.clock)
        if ahead.created(token.table) is None:
            raise NoSuchTable(f"there is no table {token.table!r}")
        if ahead.token_count(token.table) >= table_tokens_max:
            raise TooLarge(
                f"{token.table} remembers {table_tokens_max} tokens, and forgets none",
                hint="insert without a token, or publish as an ordered writer",
            )
        return None
    if step is not None:
        if step.feed is None and step.through >= clock:
            raise BadInput(
                f"{step.through} is in the future: nothing can reflect the feed up to there",
                hint="a step ends at a clock that was visible when its rows were made",
            )
        return _repeated_step(ahead, message, step)
    if not message.parts:
        return Answered(PublishDone(message.request, clock, False, ()), clock)
    return _repeated_parts(ahead, message)


def _repeated_parts(ahead: Ahead, message: Publish) -> Answered | None:
    """All of them are published already, in one go: then this was it."""
    done = [ahead.part_done(part) for part in message.parts]
    found = [each for each in done if each is not None]
    if len(found) < len(done) or any(each.clock != found[0].clock for each in found):
        return None  # if one of them is, it is refused below
    names = tuple(each.part.name for each in found)
    return Answered(PublishDone(message.request, found[0].clock, True, names), found[0].clock)


def _repeated_step(ahead: Ahead, message: Publish, step: WriterStep) -> Answered | None:
    last = ahead.last_step(WriterName(step.writer))
    if last is None:
        if step.epoch != 0 or step.after is not None:
            raise WriterFenced(
                f"{step.writer} has not published yet, so its first step has epoch 0 and begins"
                f" nowhere, not {step.epoch} behind {step.after}"
            )
        ahead.check_writer_room(WriterName(step.writer))
        return None
    known, at = last
    if step.feed != known.feed:
        raise WriterFenced(
            f"{step.writer} reflects the feed of {_feed_name(known)}, not of {_feed_name(step)}"
        )
    if step.through <= known.through:
        return Answered(PublishDone(message.request, at, True, ()), at)
    if (step.epoch, step.after) != (known.epoch + 1, known.through):
        raise WriterFenced(
            f"{step.writer} is at epoch {known.epoch} and {known.through};"
            f" this was to be epoch {step.epoch}, behind {step.after}"
        )
    return None


def _feed_name(step: WriterStep) -> str:
    return "this database" if step.feed is None else f"database {step.feed:016x}"


def _named(ahead: Ahead, staged: tuple[StagedPart, ...]) -> tuple[PublishedPart, ...]:
    """Give each part its place in its table."""
    blocks: dict[tuple[TableName, ShardId], int] = {}
    counts: dict[TableName, int] = {}
    parts = []
    for part in staged:
        created = ahead.created(part.table)
        if created is None:
            raise NoSuchTable(f"there is no table {part.table!r}")
        if created.spec.id != part.table_id:
            raise NoSuchTable(f"{part.id} was made for another table of the name {part.table!r}")
        if not 0 <= part.shard < created.spec.shards:
            raise BadInput(f"{part.table} has no shard {part.shard}")
        if ahead.part_done(part) is not None:
            raise BadInput(f"part {part.id} of {part.table} is published already")
        if part.table not in counts:
            counts[part.table] = ahead.part_count(part.table)
        counts[part.table] += 1
        if counts[part.table] > table_parts_max:
            raise TooLarge(
                f"another part of {part.table} exceeds the limit of {table_parts_max}",
                hint="insert fewer and larger blocks",
            )
        place = (part.table, part.shard)
        if place not in blocks:
            blocks[place] = ahead.next_block(*place)
        parts.append(PublishedPart(part, of_block(blocks[place])))
        blocks[place] += 1
    return tuple(parts)
