"""The feeds of several shards, merged into one: whole transactions, by (clock, transaction, index).

What several shards have of one transaction has one clock, and each shard's page is complete up to a clock of
its own. Up to the lowest of these nothing is missing: so far goes the merged page, or less if it is full. It
never ends within a clock: two transactions of different shards may share one, and a cursor is a clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

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
    found: list[Change] = []
    last = through
    for clock, entries in groupby(entries_in_order(pages, through), key=_clock_of):
        some = [
            change
            for page, entry in entries
            for change in changes_of(page.stream, page.number, page.shard, entry)
            if key is None or change.key == key
        ]
        if found and len(found) + len(some) > limit:
            return MergedPage(tuple(found), last, more=True)
        # An entry has its changes in order; only several have to be put together.
        some.sort(key=lambda change: (change.transaction, change.index))
        found += some
        last = clock
    return MergedPage(tuple(found), through, more=False)


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
) -> Iterator[Change]:
    """The records or changes of an entry, as readers see them."""
    if found.kind == EntryKind.PART_COMMITTED:
        return _committed(stream, number, decode_committed(found.body))
    return _records(stream, number, shard, found)


def _committed(stream: StreamName, number: ShardId, body: Committed) -> Iterator[Change]:
    for offset, change in enumerate(body.part.changes, body.first_offset):
        yield Change(
            clock=body.clock,
            transaction=body.part.transaction,
            index=change.index,
            count=body.part.count,
            stream=stream,
            shard=number,
            offset=Offset(offset),
            key=change.key,
            op=change.op,
            row=change.row,
            before=change.before,
            at_ms=body.at_ms,
        )


def _records(
    stream: StreamName, number: ShardId, shard: ShardName, found: FoundEntry
) -> Iterator[Change]:
    """An entry of raw records is one transaction: they have its clock and count through it."""
    records = decode_records(found.body)
    transaction = TransactionId(f"e-{found.clock.to_int():016x}-{shard}")
    total, index = records.count, 0
    for chunk in records.chunks:
        for key, value in zip(*decode_block(chunk.block), strict=True):
            yield Change(
                clock=found.clock,
                transaction=transaction,
                index=index,
                count=total,
                stream=stream,
                shard=number,
                offset=Offset(records.first_offset + index),
                key=key,
                op="append",
                row=value,
                before=None,
                at_ms=records.at_ms,
            )
            index += 1
