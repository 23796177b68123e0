"""The feeds of several shards, merged into one: whole transactions, by (clock, transaction, index).

What several shards have of one transaction has one clock, and each shard's page is complete up to a clock of
its own. Up to the lowest of these nothing is missing: so far goes the merged page, or less if it is full. It
never ends within a clock: two transactions of different shards may share one, and a cursor is a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.datanode.records import decode_records
from motet.core.shardlog.entry import EntryKind
from motet.core.streams.change import Change
from motet.core.transaction.entries import Committed, decode_committed
from motet.core.transaction.messages import FoundEntry
from motet.format.record_block import decode_block
from motet.ids import Offset, ShardId, ShardName, StreamName, TransactionId


class ShardPage(msgspec.Struct, frozen=True):
    """What one shard has said of its feed."""

    stream: StreamName
    number: ShardId
    shard: ShardName
    entries: tuple[FoundEntry, ...]
    through: Clock


class MergedPage(msgspec.Struct, frozen=True):
    """Changes in their order, complete up to ``through``."""

    changes: tuple[Change, ...]
    through: Clock
    #: there is more behind it that is at hand already
    more: bool


def merge(pages: Sequence[ShardPage], limit: int, key: bytes | None = None) -> MergedPage:
    """One page out of those of all shards: at most ``limit`` changes, but what has one clock is whole.

    With a key, its changes alone. An entry is looked into when its turn comes: what does not fit costs
    nothing.
    """
    through = min(page.through for page in pages)
    entries = entries_in_order(pages, through)
    found: list[Change] = []
    last, place, count = through, 0, len(entries)
    while place < count:
        page, entry = entries[place]
        clock = entry.clock
        some = changes_of(page.stream, page.number, page.shard, entry)
        place += 1
        if place < count and entries[place][1].clock == clock:
            # An entry has its changes in order; only several have to be put together.
            while place < count and entries[place][1].clock == clock:
                page, entry = entries[place]
                some += changes_of(page.stream, page.number, page.shard, entry)
                place += 1
            some.sort(key=_order)
        if key is not None:
            some = [change for change in some if change.key == key]
        if found and len(found) + len(some) > limit:
            return MergedPage(tuple(found), last, more=True)
        found += some
        last = clock
    return MergedPage(tuple(found), through, more=False)


def _order(change: Change) -> tuple[TransactionId, int]:
    return change.transaction, change.index


def entries_in_order(
    pages: Sequence[ShardPage], through: Clock
) -> list[tuple[ShardPage, FoundEntry]]:
    """The entries of all pages up to a clock, by their clocks."""
    found = [(page, entry) for page in pages for entry in page.entries if entry.clock <= through]
    found.sort(key=_clock_of)
    return found


def _clock_of(found: tuple[ShardPage, FoundEntry]) -> Clock:
    return found[1].clock


def changes_of(
    stream: StreamName, number: ShardId, shard: ShardName, found: FoundEntry
) -> list[Change]:
    """The records or changes of an entry, as readers see them."""
    if found.kind == EntryKind.PART_COMMITTED:
        return _committed(stream, number, decode_committed(found.body))
    return _records(stream, number, shard, found)


# Fields by their places, not their names: a reader of the feed makes a million of them in a few seconds.


def _committed(stream: StreamName, number: ShardId, body: Committed) -> list[Change]:
    clock, part, at_ms = body.clock, body.part, body.at_ms
    transaction, count = part.transaction, part.count
    return [
        Change(
            clock,
            transaction,
            change.index,
            count,
            stream,
            number,
            Offset(offset),
            change.key,
            change.op,
            change.row,
            change.before,
            at_ms,
        )
        for offset, change in enumerate(part.changes, body.first_offset)
    ]


def _records(
    stream: StreamName, number: ShardId, shard: ShardName, found: FoundEntry
) -> list[Change]:
    """An entry of raw records is one transaction: they have its clock and count through it."""
    records, clock = decode_records(found.body), found.clock
    transaction = TransactionId(f"e-{clock.to_int():016x}-{shard}")
    first, total, at_ms = records.first_offset, records.count, records.at_ms
    rows = chain.from_iterable(
        zip(*decode_block(chunk.block), strict=True) for chunk in records.chunks
    )
    return [
        Change(
            clock,
            transaction,
            index,
            total,
            stream,
            number,
            Offset(first + index),
            key,
            "append",
            value,
            None,
            at_ms,
        )
        for index, (key, value) in enumerate(rows)
    ]
