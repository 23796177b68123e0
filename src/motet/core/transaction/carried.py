"""Latest changes of keys, said once more: an entry that a leader writes before their files go.

A carried change is told in the words of a transaction with this one change in the shard, with the clock, the
name, the place and the time of day that it has always had; a raw record, too. Who reads the feed or the
records of a shard passes over it: only who asks for its key gets to see it.

K1  What is carried is a committed change, and what it says is what it has always said. So it does not matter
    how often it is carried, or by whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from motet.core.clock.hlc import ZERO
from motet.core.onelog.run import Run
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.transaction.bundles import unbundled
from motet.core.transaction.entries import Committed, Part, encode_part
from motet.core.transaction.latest import LatestChanges
from motet.core.transaction.merging import run_of
from motet.core.transaction.messages import FoundEntry
from motet.ids import Offset, ShardId, ShardName, StreamName

NOWHERE = StreamName("")
"""A log does not know what its stream is called."""


class Carried(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Changes that are the latest of their keys, or were when they were read."""

    #: each has one change
    changes: tuple[Committed, ...]
    #: where the leader's log began: of what was before it nothing is carried any more
    first: Offset


decode_carried = msgspec.msgpack.Decoder(Carried).decode


def needed(latest: LatestChanges, shard: ShardName, entries: Sequence[Entry]) -> list[Committed]:
    """The changes in some entries that are the latest of their keys, to be carried on."""
    if not entries:
        return []
    last = entries[-1].id.offset
    held = takewhile(lambda at: at <= last, latest.entries(entries[0].id.offset))
    holding = dict.fromkeys(held)  # only these are looked into
    found: list[Committed] = []
    for entry in entries:
        if entry.id.offset in holding:
            for each in unbundled(entry):
                found += _needed(latest, shard, each)
    return found


def carried_change(entry: Entry, place: int) -> FoundEntry:
    """One change of an entry that carries some, as if it had been logged by itself."""
    change = decode_carried(entry.body).changes[place]
    return FoundEntry(entry.id.epoch, change.clock, EntryKind.PART_COMMITTED, encode_part(change))


def size_bytes(change: Committed) -> int:
    """What it takes in an entry, roughly."""
    only = change.part.changes[0]
    return len(only.key) + len(only.row or b"") + len(only.before or b"")


def _needed(latest: LatestChanges, shard: ShardName, entry: Entry) -> list[Committed]:
    """Of an entry, or of one in a bundle, in which no key is twice (U2)."""

    def is_latest(key: bytes, place: int) -> bool:
        known = latest.keys.get(key)
        return known is not None and (known.entry, known.place) == (entry.id.offset, place)

    if entry.kind == EntryKind.CARRIED_ON:
        changes = enumerate(decode_carried(entry.body).changes)
        return [change for place, change in changes if is_latest(change.part.changes[0].key, place)]
    if entry.kind not in (EntryKind.RECORDS, EntryKind.PART_COMMITTED):
        return []
    found = FoundEntry(entry.id.epoch, entry.clock, entry.kind, entry.body)
    run = run_of(NOWHERE, ShardId(0), shard, found)
    return [_alone(run, at) for at, each in enumerate(run.changes) if is_latest(each.key, at)]


def _alone(run: Run, place: int) -> Committed:
    """One change of a run."""
    part = Part(run.transaction, ZERO, ZERO, run.count, run.changes[place : place + 1])
    offset = Offset(run.first_offset + place)
    return Committed(part, run.clock, run.at_ms, offset, (), run.has_clock)
