"""Entries of a shard's log, and their ids.

An entry is what a leader appends in one piece. What it says is for the shard's state machine; the log only
knows *barriers*, which a leader writes after each change of epoch so that there is something of the new
epoch to commit.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from motet.core.clock.hlc import Clock
from motet.ids import Epoch, Offset


class EntryId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """An entry's place: compared by epoch first, then by offset. Offsets of a log have no gap."""

    epoch: Epoch
    #: from 1
    offset: Offset

    def __str__(self) -> str:
        return f"({self.epoch},{self.offset})"


NO_ENTRY = EntryId(Epoch(0), Offset(0))
"""The head index of an empty log: below every entry."""


class EntryKind(IntEnum):
    """What an entry is; never given away twice. From 16 on they belong to the state machine."""

    BARRIER = 1
    RECORDS = 16
    #: of transactions: see :mod:`motet.core.streams.entries`
    BRANCH_COMMITTED = 17
    PREPARED = 18
    ABORTED = 19
    FORGOTTEN = 20
    #: says nothing: its clock closes an idle shard
    CLOSED = 21
    #: see :mod:`motet.core.streams.orders`
    ORDERED = 22
    #: see :mod:`motet.core.streams.entries`
    BATCH = 23
    #: see :mod:`motet.core.streams.compaction`
    COMPACTED = 24
    # Of a database in one log (``core.onelog``)
    STREAM_CREATED = 32
    COMMITTED = 33
    TABLE_CREATED = 34
    PUBLISHED = 35
    WRITER_NOTED = 36
    FEED_ORDERED = 37
    CLOCK_TURNED = 40
    CHANGES_COMPACTED = 41


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry as it is logged and as it travels."""

    id: EntryId
    kind: int
    #: the leader's cluster clock; rises along the log
    clock: Clock
    body: bytes
