"""Who fills tables in the storm: ordered writers that follow the feed, inserts with tokens, snapshots.

Two processes act as one ordered writer, each believing that it is the only one. What they publish is
derived from the feed: a slice gives a part of ``audit`` with a row for each change, and a part of ``large``
with as many if it has more than one transaction. So ``audit`` tells which parts ``large`` must have. What
is noticed at once:

T1   a table that was there stays there
T5   the tables at a clock are the same whenever they are read, with all of each publication or nothing

What the tables must be when all is over, given the feed they were derived from.

T2   the blocks of a shard have numbers without a gap
T3   what was inserted under a token is there once, at the clock that was told
T4   the slices of the ordered writer are the feed: none is missing, none is there twice, each is whole
T5   what was confirmed is there
"""

from __future__ import annotations

from itertools import pairwise

from motet.core.clock.hlc import Clock
from motet.core.machine import Effect, Message, Violation
from motet.core.onelog.messages import FeedPage, FeedSplit, ReadFeed, SplitFeed, StreamsRefused
from motet.core.streams.change import FeedChange
from motet.core.tables.messages import (
    CreateTable,
    Publish,
    PublishDone,
    ReadTable,
    ReadWriter,
    TableIs,
    TableReady,
    VisiblePart,
    WriterIs,
)
from motet.core.tables.records import InsertToken, StagedPart, TableSpec, WriterStep
from motet.errors import BadInput, NoSuchTable, WriterFenced
from motet.ids import PartId, ShardId, TableId, TableName, WriterName
from motet.sim.world import World
from motet.verify.storms.database_clients import STREAM, Actor

WRITER = WriterName("shop")
AUDIT = TableName("audit")
LARGE = TableName("large")
INBOX = TableName("inbox")
INBOX_SHARDS = 2
TABLES = {AUDIT: 1, LARGE: 1, INBOX: INBOX_SHARDS}
INSERTS = 8
CHANGES_OF_A_TRANSFER = 2
SLICE_CHANGES_MAX = 8
FILE = f"0-{'0' * 32}"

Parts = tuple[VisiblePart, ...]


class TablesActor(Actor):
    """Makes sure that there are tables, each with an id of its own making, and goes on from there."""

    def __init__(self, world: World, name: str, number: int) -> None:
        super().__init__(world, name)
        #: what was wrong while it went on
        self.violations: list[Violation] = []
        self._number = number
        self._ids: dict[TableName, TableId] = {}
        self._staged = 0

    def ready(self) -> list[Effect]:
        for number, (table, shards) in enumerate(TABLES.items(), start=1):
            if table not in self._ids:
                identity = TableId(f"{self._number:08x}{number:08x}")
                spec = TableSpec(table, identity, b"rows", ("row",), shards, "merge", None, None)
                return self.ask(CreateTable(self.next_request(), spec))
        return self.pause()

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(answer, StreamsRefused) and answer.code == NoSuchTable.code:
            self.violations.append(Violation("T1", f"it was there: {answer.what}"))
            self._ids.clear()
            return self.ready()
        if not isinstance(asked, CreateTable):
            return super().answered(asked, answer)
        if isinstance(answer, TableReady):
            # Whoever came first has chosen the id.
            self._ids[answer.spec.name] = answer.spec.id
        return self.ready()

    def stage(self, table: TableName, rows: int, shard: int = 0) -> StagedPart:
        """A new part, whose files are taken for durable."""
        self._staged += 1
        part = PartId(f"{self._number:08x}{self._staged:08x}")
        return StagedPart(table, self._ids[table], part, ShardId(shard), FILE, rows, 100)


class Publisher(TablesActor):
    """One process of the ordered writer: takes the next slice of the feed, and publishes it."""

    def __init__(self, world: World, name: str, number: int) -> None:
        super().__init__(world, name, number)
        #: what was confirmed as new, with its clock
        self.confirmed: list[tuple[WriterStep, Clock]] = []
        self.is_last_round = False
        self.is_done = False
        self._began_last = False
        #: where the writer is, as far as this process knows
        self._is_informed = False
        self._last: WriterStep | None = None
        self._through = Clock(0, 0)

    def begin(self) -> list[Effect]:
        if self.is_last_round and not self._began_last:
            self._began_last, self._is_informed = True, False
        if not self._is_informed:
            return self.ask(ReadWriter(self.next_request(), WRITER))
        return self._split()

    def worked(self, asked: Message, answer: Message | None) -> list[Effect]:
        match answer:
            case WriterIs(info=info):
                self._is_informed = True
                self._last = None if info is None else info.step
                return self._split()
            case FeedSplit(changes=changes, bounds=bounds):
                self.is_done = self._began_last and not changes
                if changes:
                    self._through = bounds[-1]
                    message = ReadFeed(
                        self.next_request(), (STREAM,), self.after, 1_000, bounds[-1]
                    )
                    return self.ask(message)
                return [] if self.is_done else self.pause()
            case FeedPage(changes=page):
                return self._publish(len(page))
        if isinstance(asked, Publish):
            return self._judge(asked, answer)
        return self.pause()

    @property
    def after(self) -> Clock | None:
        """How far the writer is, as far as this process knows."""
        return None if self._last is None else self._last.through

    def _split(self) -> list[Effect]:
        most = self.dice.between(1, SLICE_CHANGES_MAX)
        message = SplitFeed(self.next_request(), (STREAM,), self.after, None, most, 1)
        return self.ask(message)

    def _publish(self, rows: int) -> list[Effect]:
        epoch = 0 if self._last is None else self._last.epoch + 1
        step = WriterStep(WRITER, epoch, self.after, self._through)
        parts = [self.stage(AUDIT, rows)]
        if is_large(rows):
            parts.append(self.stage(LARGE, rows))
        return self.ask(Publish(self.next_request(), tuple(parts), None, step))

    def _judge(self, asked: Publish, answer: Message | None) -> list[Effect]:
        assert asked.step is not None
        if isinstance(answer, PublishDone) and not answer.duplicate:
            self.confirmed.append((asked.step, answer.clock))
            self._last = asked.step
            return self.pause()
        if isinstance(answer, PublishDone):
            self.world.mark("step_repeated")
        elif isinstance(answer, StreamsRefused) and answer.code == WriterFenced.code:
            self.world.mark("writer_fenced")
        elif answer is None and self.dice.chance(0.5):
            # Nobody knows what became of it: the very same again is safe.
            return self.ask(Publish(self.next_request(), asked.parts, None, asked.step))
        self._is_informed = False
        return self.pause()


def is_large(rows: int) -> bool:
    """Whether a slice with so many changes is published to both tables."""
    return rows > CHANGES_OF_A_TRANSFER


class Inserter(TablesActor):
    """Inserts one part after the other, each under its token, until it is told that it is there."""

    def __init__(self, world: World, name: str, number: int) -> None:
        super().__init__(world, name, number)
        #: rows, which tell the inserts apart → the clock that was told
        self.confirmed: dict[int, Clock] = {}

    @property
    def is_done(self) -> bool:
        return len(self.confirmed) == INSERTS

    def begin(self) -> list[Effect]:
        rows = len(self.confirmed) + 1
        part = self.stage(INBOX, rows, rows % INBOX_SHARDS)
        token = InsertToken(INBOX, f"insert-{rows}")
        return self.ask(Publish(self.next_request(), (part,), token))

    def worked(self, asked: Message, answer: Message | None) -> list[Effect]:
        assert isinstance(asked, Publish)
        if isinstance(answer, PublishDone):
            self.confirmed[asked.parts[0].rows] = answer.clock
            if answer.duplicate:
                self.world.mark("token_repeated")
        return [] if self.is_done else self.pause()


class Snapshooter(TablesActor):
    """Reads both tables of the ordered writer at one clock, now or in the past."""

    def __init__(self, world: World, name: str, number: int) -> None:
        super().__init__(world, name, number)
        self.is_last_round = False
        self.is_done = False
        #: the tables as they were last
        self.final: dict[TableName, Parts] = {}
        #: clock → what each table was there
        self._seen: dict[Clock, dict[TableName, Parts]] = {}
        self._read: dict[TableName, Parts] = {}
        self._at: Clock | None = None
        self._began_last = False

    def begin(self) -> list[Effect]:
        self._began_last = self.is_last_round
        self._read, self._at = {}, None
        if self._seen and not self._began_last and self.dice.chance(0.3):
            self._at = self.dice.pick(list(self._seen))
            self.world.mark("snapshot_past")
        return self._next_table()

    def worked(self, asked: Message, answer: Message | None) -> list[Effect]:
        assert isinstance(asked, ReadTable)
        if isinstance(answer, TableIs):
            self._read[asked.table], self._at = answer.parts, answer.clock
            return self._next_table() if len(self._read) < len(TABLES) else self._compare(self._at)
        if isinstance(answer, StreamsRefused) and answer.code == BadInput.code:
            self.violations.append(Violation("T5", f"{asked.at} was visible: {answer.what}"))
        return self.pause()

    def _next_table(self) -> list[Effect]:
        table = self.dice.pick([each for each in TABLES if each not in self._read])
        return self.ask(ReadTable(self.next_request(), table, self._at))

    def _compare(self, clock: Clock) -> list[Effect]:
        before = self._seen.setdefault(clock, self._read)
        if self._read != before:
            self.violations.append(Violation("T5", f"the tables at {clock} are not what they were"))
        if marks_of(self._read[LARGE]) != marks_of(large_of(self._read[AUDIT])):
            self.violations.append(Violation("T5", f"half of a publication is visible at {clock}"))
        if self._began_last:
            self.is_done, self.final = True, self._read
        return [] if self.is_done else self.pause()


def large_of(parts: Parts) -> Parts:
    """Those that have a twin in the other table."""
    return tuple(each for each in parts if is_large(each.part.staged.rows))


def marks_of(parts: Parts) -> list[tuple[Clock, WriterStep | None, int]]:
    """What the twins have in common."""
    return [(each.clock, each.step, each.part.staged.rows) for each in parts]


def check_tables(
    feed: list[FeedChange],
    publishers: list[Publisher],
    inserter: Inserter,
    final: dict[TableName, Parts],
) -> list[Violation]:
    """All that is wrong with what was published."""
    audit = final[AUDIT]
    return [
        *(each for parts in final.values() for each in _check_blocks(parts)),
        *_check_tokens(final[INBOX], inserter.confirmed),
        *_check_slices(audit, feed),
        *(each for publisher in publishers for each in _check_confirmed(audit, publisher)),
    ]


def _check_blocks(parts: Parts) -> list[Violation]:
    numbers: dict[ShardId, int] = {}
    for each in parts:
        shard, name = each.part.staged.shard, each.part.name
        numbers[shard] = numbers.get(shard, 0) + 1
        if (name.min_block, name.max_block) != (numbers[shard], numbers[shard]):
            return [Violation("T2", f"{name} is number {numbers[shard]} of its shard")]
    if [each.clock for each in parts] != sorted(each.clock for each in parts):
        return [Violation("T2", "parts are not in the order of their clocks")]
    return []


def _check_tokens(parts: Parts, confirmed: dict[int, Clock]) -> list[Violation]:
    found = sorted((each.part.staged.rows, each.clock) for each in parts)
    if found != sorted(confirmed.items()):
        return [Violation("T3", f"inserted were {confirmed}, there is {found}")]
    return []


def _check_slices(audit: Parts, feed: list[FeedChange]) -> list[Violation]:
    steps = [each.step for each in audit if each.step is not None]
    if len(steps) != len(audit) or [step.epoch for step in steps] != list(range(len(steps))):
        return [Violation("T4", "the epochs of the writer do not count up")]
    if steps and steps[0].after is not None:
        return [Violation("T4", f"the first slice begins behind {steps[0].after}")]
    for before, step in pairwise(steps):
        if step.after != before.through:
            return [Violation("T4", f"a slice ends at {before.through}, the next is {step}")]
    last = feed[-1].clock if feed else None
    if last is not None and (not steps or steps[-1].through < last):
        return [Violation("T4", f"the feed goes to {last}, the tables do not")]
    return _check_rows(audit, feed)


def _check_rows(audit: Parts, feed: list[FeedChange]) -> list[Violation]:
    """Each slice has a row for each of its changes; one that ends after the feed is not looked at."""
    for each in audit:
        rows, step = each.part.staged.rows, each.step
        assert step is not None
        if feed and step.through <= feed[-1].clock and rows != _changes_of(step, feed):
            return [Violation("T4", f"{rows} rows for {_changes_of(step, feed)} changes of {step}")]
    return []


def _changes_of(step: WriterStep, feed: list[FeedChange]) -> int:
    return sum(
        (step.after is None or change.clock > step.after) and change.clock <= step.through
        for change in feed
    )


def _check_confirmed(audit: Parts, publisher: Publisher) -> list[Violation]:
    there = [(each.step, each.clock) for each in audit]
    lost = [each for each in publisher.confirmed if there.count(each) != 1]
    if lost:
        return [Violation("T5", f"{lost[0][0]} was confirmed at {lost[0][1]}, and is not there")]
    return []
