"""Changes, and what a change passes on its way.

================  =========================================================================================
``RowChange``     a change of a row in its transaction: made once by the client
``Branch``        what one shard gets of a transaction: the same in the request, the prepare and the commit
``Committed``     a branch with its clock and first offset: the body of an entry; of raw records, ``Records``
``Entry``         what a log holds; several bodies of one turn are one entry (``core.shardlog.entry``)
``FoundEntry``    an entry with changes, with the clock of its transaction: what a reader is sent
``ShardPage``     some of these, in the order of the feed of one shard (``core.streams.feed_merge``)
``Run``           some changes of one transaction in one shard that follow each other in the feed
``FeedChange``    one change of a run, with all that it shares with the others
``Page, Change``  what a user gets: runs, and each change with its row decoded (``motet.client``)
================  =========================================================================================

A message or a queue that holds one of these (``CommitTransaction``, ``PendingRequest``, ``ShardFeed``,
``FeedPage``) copies nothing. Readers who want columns make them of runs; those who want changes one by one
have them made when they look.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from motet.core.clock.hlc import Clock
from motet.ids import Offset, ShardId, StreamName, TransactionId

Op = Literal["append", "insert", "update", "delete"]
OPS: tuple[str, ...] = get_args(Op)
"""Of a transaction: a mirror repeats raw entries in one too."""


Standing = Literal["committed", "aborted", "prepared", "unknown"]
"""What became of a transaction; ``prepared``: that is not decided yet."""


class Token(msgspec.Struct, frozen=True, array_like=True):
    """Names an append so that a retry is recognised: the producer, and its own count."""

    producer: str
    number: int


class FeedChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One change in the feed; ``(clock, transaction, index)`` is its place in the order of everything."""

    clock: Clock
    transaction: TransactionId
    index: int
    #: how many changes the transaction has
    count: int
    stream: StreamName
    shard: ShardId
    offset: Offset
    key: bytes
    op: Op
    row: bytes | None
    before: bytes | None
    at_ms: int
    #: for its readers: False if the clock was off when it was committed. Its place it has all the same
    has_clock: bool = True


class RowChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One change of a transaction, in its shard."""

    #: among all changes of the transaction, over all its shards
    index: int
    key: bytes
    op: Op
    row: bytes | None
    before: bytes | None


class Branch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What requests and entries say about a transaction: its name, its age, and its changes in a shard."""

    transaction: TransactionId
    #: the clock it began at: together with its name this is its age, by which rivals wait or die
    begin: Clock
    #: the clock its client had seen when it asked for the commit: whoever has forgotten transactions
    #: asked at this clock takes it for one of them
    asked: Clock
    #: changes in all shards
    count: int = 0
    changes: tuple[RowChange, ...] = ()

    @property
    def age(self) -> tuple[Clock, TransactionId]:
        """The lower is the older."""
        return self.begin, self.transaction


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Changes of one transaction, in one shard, one after the other."""

    clock: Clock
    transaction: TransactionId
    #: how many changes the transaction has
    count: int
    stream: StreamName
    shard: ShardId
    at_ms: int
    #: of the first of them; they follow each other in the shard, too
    first_offset: Offset
    changes: tuple[RowChange, ...]
    #: for readers: False if the clock was off when it was committed
    has_clock: bool = True

    def expanded(self) -> list[FeedChange]:
        """The changes one by one."""
        # Fields by their places, not their names: a reader makes a million of them in a few seconds.
        clock, transaction, count = self.clock, self.transaction, self.count
        stream, shard, at_ms, has_clock = self.stream, self.shard, self.at_ms, self.has_clock
        return [
            FeedChange(
                clock,
                transaction,
                each.index,
                count,
                stream,
                shard,
                Offset(offset),
                each.key,
                each.op,
                each.row,
                each.before,
                at_ms,
                has_clock,
            )
            for offset, each in enumerate(self.changes, self.first_offset)
        ]


def changes_in(runs: Iterable[Run]) -> tuple[FeedChange, ...]:
    """All changes of some runs, one by one."""
    return tuple([change for run in runs for change in run.expanded()])


def count_in(runs: Iterable[Run]) -> int:
    """How many changes there are."""
    return sum([len(run.changes) for run in runs])


def runs_of(changes: Iterable[FeedChange]) -> list[Run]:
    """Changes in their order as runs."""
    found: list[Run] = []
    some: list[FeedChange] = []
    for change in changes:
        if some and not _follows(some[-1], change):
            found.append(_run(some))
            some = []
        some.append(change)
    if some:
        found.append(_run(some))
    return found


def _follows(last: FeedChange, change: FeedChange) -> bool:
    return last.offset + 1 == change.offset and _shared(last) == _shared(change)


def _shared(change: FeedChange) -> tuple[object, ...]:
    """What all changes of a run have."""
    return change.transaction, change.clock, change.has_clock, change.stream, change.shard


def _run(some: list[FeedChange]) -> Run:
    c = some[0]
    changes = [RowChange(each.index, each.key, each.op, each.row, each.before) for each in some]
    shared = (c.clock, c.transaction, c.count, c.stream, c.shard, c.at_ms)
    return Run(*shared, c.offset, tuple(changes), c.has_clock)
