"""A database in the storm: money moves between accounts, readers follow the feed, and the books must balance.

Clients move amounts between keys of one stream by read-modify-write transactions; each answer they miss
leaves a transaction that may or may not have happened. Two readers follow the feed all the while, each with
a cursor of its own: one page by page, the other slice by slice. What is checked:

S1   a transaction that was confirmed is in the feed, with its clock
S2   what a reader saw, page by page, is exactly the feed as it stands in the end: nothing came late
S4   after each transaction of the feed all balances add up to nothing, and each row fits what was read

What both have read is pruned (:mod:`motet.verify.storms.database_clients`), and the log gives its files back.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.machine import Effect, Event, Message, Received, Violation, Write
from motet.core.onelog.machine import StreamsMachine
from motet.core.onelog.messages import (
    Commit,
    CommitDone,
    FeedPage,
    FeedSplit,
    GetLatest,
    KeyRead,
    Latest,
    ReadFeed,
    SplitFeed,
    StreamsRefused,
    Wanted,
)
from motet.core.streams.change import FeedChange
from motet.errors import Conflict
from motet.ids import Address, TransactionId
from motet.sim.host import Stepper
from motet.sim.world import World
from motet.verify.plants import kind_of, plants_of
from motet.verify.storms.database_clients import SERVER, STREAM, Actor, Pruner
from motet.verify.storms.planting import Hurried

# A database with planted bugs: the real machine, asked for something else than what it was asked for.

SEGMENT_BYTES = 8192
TAIL_BYTES = 2048
"""Readers that lag find nothing in memory."""

HURRIES = "ack-before-durable"
"""A record counts as durable as soon as its write has begun."""


def _machine() -> StreamsMachine:
    return StreamsMachine(SEGMENT_BYTES, TAIL_BYTES)


def factory(plant: str | None) -> Callable[[], Stepper]:
    """What makes the machine of each incarnation."""
    if plant == HURRIES:
        return lambda: Hurried(_machine(), Write)
    if plant is None:
        return _machine
    kind = kind_of("database", plant, Blind)
    return lambda: kind(_machine())


class Blind:
    """A transaction is applied even if what it read has changed since."""

    def __init__(self, machine: StreamsMachine) -> None:
        self.machine = machine

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received) and isinstance(event.message, Commit):
            unread = msgspec.structs.replace(event.message, reads=())
            event = Received(event.now, event.sender, unread)
        return self.machine.step(event)

    def invariants(self) -> list[Violation]:
        return self.machine.invariants()


class Drops(Blind):
    """Files go with the latest changes of keys in them."""

    def step(self, event: Event) -> list[Effect]:
        effects = self.machine.step(event)
        if self.machine.state.clearing is not None:
            self.machine.state.clearing.holding.clear()
        return effects


ACCOUNTS = (b"a", b"b", b"c", b"d")
WRITERS = 3
TRANSFERS = 15
PAGE = 7
SLICE_CHANGES_MAX = 20
SPLITS_MAX = 3


class DatabaseStorm:
    """``motet simulate database``."""

    name = "database"
    marks = (
        "crash",
        "crash_writing",
        "lost_write",
        "torn_write",
        "streams_recovered",
        "shard_tail_cut",
        "shard_taken_back",
        "streams_segment",
        "streams_cleared",
        "streams_bound_failed",
        "transfer_conflict",
        "transfer_unknown",
    )
    plants = plants_of("database")
    storm_ms = 4_000

    def prepare(self, world: World, plant: str | None) -> DatabaseRun:
        return DatabaseRun(world, plant)


class DatabaseRun:
    """One node; writers and two readers of its stream; and who prunes it."""

    def __init__(self, world: World, plant: str | None) -> None:
        world.host(world.add_node(SERVER), "streams", factory(plant))
        self.writers = [Writer(world, f"w{number}") for number in range(1, WRITERS + 1)]
        self.readers = [Reader(world, "r1"), Slicer(world, "r2")]
        self.pruner = Pruner(world, "x1", self._read_by_all)
        for actor in (*self.writers, *self.readers, self.pruner):
            world.host(world.add_node(actor.name, immune=True), "streams", actor.itself)

    def _read_by_all(self) -> Clock | None:
        """Nobody will ask for the feed after a lower clock; None: somebody reads from the beginning."""
        known = [reader.after for reader in self.readers]
        reached = [clock for clock in known if clock is not None]
        return min(reached) if len(reached) == len(known) else None

    def finished(self) -> bool:
        """Writers are done; then readers have come to the end once more."""
        if any(writer.left for writer in self.writers):
            return False
        for reader in self.readers:
            reader.is_last_round = True
        return all(reader.is_done for reader in self.readers)

    def permits(self, fault: str, _node: Address, /) -> bool:
        return fault != "rot"  # one copy: damage is noticed and stops the node, by design

    def check(self) -> list[Violation]:
        feeds = [reader.changes for reader in self.readers]
        if self.pruner.violations or not self.finished():
            return self.pruner.violations
        if feeds[0] != feeds[1]:
            return [Violation("S2", "two readers saw different feeds")]
        return _check_order(feeds[0]) + _check_books(feeds[0]) + self._check_outcomes(feeds[0])

    def _check_outcomes(self, feed: list[FeedChange]) -> list[Violation]:
        for writer in self.writers:
            for transaction, clock in writer.confirmed.items():
                if not any(c.transaction == transaction and c.clock == clock for c in feed):
                    return [Violation("S1", f"{transaction} was confirmed and is not in the feed")]
        return []


def _check_order(feed: list[FeedChange]) -> list[Violation]:
    places = [(change.clock, change.transaction, change.index) for change in feed]
    if places != sorted(set(places)):
        return [Violation("S2", "the feed is not in order, or has something twice")]
    return []


def _check_books(feed: list[FeedChange]) -> list[Violation]:
    balances: dict[bytes, int] = {}
    for position, change in enumerate(feed):
        assert change.row is not None
        before = 0 if change.before is None else amount_of(change.before)
        if balances.get(change.key, 0) != before:
            return [Violation("S4", f"{change.transaction} read a balance that was not there")]
        balances[change.key] = amount_of(change.row)
        ends = position + 1 == len(feed) or feed[position + 1].transaction != change.transaction
        if ends and (sum(balances.values()) != 0 or change.index + 1 != change.count):
            return [Violation("S4", f"the books do not balance after {change.transaction}")]
    return []


def _row(balance: int, padding: int) -> bytes:
    return msgspec.json.encode((balance, "." * padding))


def amount_of(row: bytes) -> int:
    """The balance that a row tells."""
    return msgspec.json.decode(row, type=tuple[int, str])[0]


class Writer(Actor):
    """Moves amounts from one account to another."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.left = TRANSFERS
        self.confirmed: dict[TransactionId, Clock] = {}
        self._accounts: list[bytes] = []
        self._seen: list[FeedChange | None] = []

    def begin(self) -> list[Effect]:
        self._accounts = self.dice.shuffled(ACCOUNTS)[:2]
        self._seen = []
        return self.ask(GetLatest(self.next_request(), STREAM, self._accounts[0]))

    def worked(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(answer, Latest):
            self._seen.append(answer.change)
            if len(self._seen) == 1:
                return self.ask(GetLatest(self.next_request(), STREAM, self._accounts[1]))
            return self._commit()
        if isinstance(asked, Commit):
            self._judge(asked, answer)
        return self.pause() if self.left else []

    def _commit(self) -> list[Effect]:
        amount = self.dice.between(1, 100)
        reads, changes = [], []
        for key, seen, by in zip(self._accounts, self._seen, (amount, -amount), strict=True):
            before = None if seen is None else seen.row
            balance = by if before is None else amount_of(before) + by
            reads.append(KeyRead(STREAM, key, None if seen is None else seen.clock))
            # Long enough to span sectors now and then, so that a crash can tear it.
            row = _row(balance, self.dice.pick([0, 300, 900, 1_500]))
            changes.append(Wanted(STREAM, key, "insert" if seen is None else "update", row, before))
        transaction = TransactionId(f"{self.name}-{self._requests}")
        return self.ask(Commit(self.next_request(), transaction, tuple(reads), tuple(changes)))

    def _judge(self, asked: Commit, answer: Message | None) -> None:
        if isinstance(answer, CommitDone):
            self.confirmed[asked.transaction] = answer.clock
            self.left -= 1
        elif isinstance(answer, StreamsRefused) and answer.code == Conflict.code:
            # The network may have brought a copy that was taken before: then this is our own change.
            self.world.mark("transfer_conflict")
        else:
            self.world.mark("transfer_unknown")


class Reader(Actor):
    """Follows the feed, page by page, with a cursor of its own."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.changes: list[FeedChange] = []
        self.is_last_round = False
        self.is_done = False
        self.after: Clock | None = None
        self._began_last = False

    def begin(self) -> list[Effect]:
        self._began_last = self.is_last_round
        return self.ask(ReadFeed(self.next_request(), (STREAM,), self.after, PAGE))

    def worked(self, asked: Message, answer: Message | None) -> list[Effect]:
        assert isinstance(asked, ReadFeed)
        if not isinstance(answer, FeedPage):
            return self.pause()
        self.changes += answer.changes
        self.after = answer.through
        if answer.more:
            return self.begin()
        self.is_done = self._began_last
        return [] if self.is_done else self.pause()


class Slicer(Reader):
    """Has the feed cut into slices, and reads each split of a slice in its turn, page by page."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        #: where the splits end that are not read yet
        self._bounds: list[Clock] = []

    def begin(self) -> list[Effect]:
        if self._bounds:
            page = ReadFeed(self.next_request(), (STREAM,), self.after, PAGE, self._bounds[0])
            return self.ask(page)
        self._began_last = self.is_last_round
        most, splits = self.dice.between(1, SLICE_CHANGES_MAX), self.dice.between(1, SPLITS_MAX)
        return self.ask(SplitFeed(self.next_request(), (STREAM,), self.after, None, most, splits))

    def worked(self, _asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(answer, FeedSplit):
            if answer.changes:
                self._bounds = list(answer.bounds)
                return self.begin()
            self.is_done = self._began_last
        elif isinstance(answer, FeedPage):
            self.changes += answer.changes
            self.after = answer.through
            if not answer.more:
                del self._bounds[0]
            return self.begin() if self._bounds else self.pause()
        return [] if self.is_done else self.pause()
