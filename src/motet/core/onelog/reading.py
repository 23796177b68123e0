"""Reading back: pages of the feed, entries of a shard, the latest change of a key.

All of them read a range of the log, pick what was asked for, and go on with the next range until the
page is full, the log ends, or enough has been looked at for one request. Only what is durable is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.machine import Message
from motet.core.onelog.change import Committed, Compacted, LoggedChange, feed_change, shown_change
from motet.core.onelog.index import Index
from motet.core.onelog.keeping import begin_of
from motet.core.onelog.messages import (
    Entries,
    FeedPage,
    GetLatest,
    Latest,
    ReadEntries,
    ReadFeed,
)
from motet.core.onelog.record import decode_record
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.shardlog.records import entry_bytes
from motet.core.streams.change import FeedChange, RowChange, Run
from motet.errors.shards import OffsetExpired
from motet.ids import Address, Epoch, Offset
from motet.limits import page_bytes_max

RANGE_BYTES = 256 * 1024
"""One read of the log, unless a single record is longer."""


class Reading(msgspec.Struct):
    """One request that is being served from the log."""

    client: Address
    message: ReadFeed | ReadEntries | GetLatest
    #: the next record to look at, and the one behind the last
    next: int
    stop: int
    #: the visible clock when the reading began: what came later was not looked at
    visible: Clock
    #: of the feed: the clock behind which it began; None for the beginning of everything
    after_clock: Clock | None = None
    #: of the feed, and how many changes that is
    runs: list[Run] = []
    count: int = 0
    #: of all others
    found: list[FeedChange] = []
    #: of entries: the epoch of each
    epochs: list[Epoch] = []
    looked_at_bytes: int = 0
    is_full: bool = False

    def wants_more(self) -> bool:
        return not self.is_full and self.next < self.stop and self.looked_at_bytes < page_bytes_max

    @property
    def after(self) -> Offset:
        """The entry of the log behind which the reading goes on."""
        return Offset(self.next)

    @property
    def bytes_max(self) -> int:
        """How much of the log to read next; one entry at least."""
        return 1 if isinstance(self.message, GetLatest) else RANGE_BYTES


def begin(
    index: Index, visible: Clock, client: Address, message: ReadFeed | ReadEntries | GetLatest
) -> Reading:
    """Where a request begins in the log, and where it ends at the latest."""
    stop = index.places.behind
    if isinstance(message, ReadFeed):
        if message.up_to is not None:
            stop = min(stop, index.places.first_after(message.up_to))
        after = begin_of(index, message.streams, message.after)
        return Reading(client, message, index.places.first_after(after), stop, visible, after)
    stream = index.streams[message.stream]
    if isinstance(message, GetLatest):
        latest = stream.latest.get(message.key)
        first = stop if latest is None else latest.sequence
        return Reading(client, message, first, stop if latest is None else first + 1, visible)
    entries, kept = stream.entries[message.shard], stream.firsts[message.shard]
    wanted = max(message.after + 1, 0)
    if wanted < kept:
        raise OffsetExpired(
            f"record {wanted} is no longer kept", hint=f"the first one that is there is {kept}"
        )
    first = entries[wanted - kept] if wanted - kept < len(entries) else stop
    return Reading(client, message, first, stop, visible)


def take(reading: Reading, entries: Sequence[Entry], index: Index) -> None:
    """Pick from the range what was asked for; ``BadRecord`` when it is not what was written."""
    for entry in entries:
        if reading.next >= reading.stop:
            return
        assert entry.id.offset == reading.next + 1, "a log has no gap"
        reading.looked_at_bytes += entry_bytes(entry)
        if entry.kind == EntryKind.COMMITTED:
            committed = decode_record(entry)
            assert isinstance(committed, Committed)
            has_clock = index.has_clock_at(committed.clock)
            if not _pick(reading, committed, entry.id.epoch, has_clock=has_clock):
                reading.is_full = True
                return
        elif entry.kind == EntryKind.CHANGES_COMPACTED and isinstance(reading.message, GetLatest):
            _pick_compacted(reading, reading.message, entry, index)
        reading.next += 1


def _pick(reading: Reading, committed: Committed, epoch: Epoch, *, has_clock: bool) -> bool:
    """Take what was asked for of one transaction; False if the page has no room for it."""
    message = reading.message
    if isinstance(message, ReadFeed):
        return _pick_runs(reading, message, committed, has_clock=has_clock)
    picked = [
        feed_change(committed, number, has_clock=has_clock)
        for number, change in enumerate(committed.changes)
        if change.stream == message.stream
        and (
            change.key == message.key
            if isinstance(message, GetLatest)
            else change.shard == message.shard and change.offset > message.after
        )
    ]
    if isinstance(message, GetLatest):
        reading.found = picked[-1:]
        return True
    room = message.limit - len(reading.found)
    reading.found += picked[:room]
    reading.epochs += [epoch] * len(picked[:room])
    return len(reading.found) < message.limit


def _pick_compacted(reading: Reading, message: GetLatest, entry: Entry, index: Index) -> None:
    compacted = decode_record(entry)
    assert isinstance(compacted, Compacted)
    reading.found = [
        shown_change(each, has_clock=index.has_clock_at(each.clock))
        for each in compacted.changes
        if each.change.stream == message.stream and each.change.key == message.key
    ]


def _pick_runs(
    reading: Reading, message: ReadFeed, committed: Committed, *, has_clock: bool
) -> bool:
    streams, key = message.streams, message.key
    picked = [
        (number, change)
        for number, change in enumerate(committed.changes)
        if change.stream in streams and (key is None or change.key == key)
    ]
    if reading.count and reading.count + len(picked) > message.limit:
        return False  # a page never splits a transaction
    reading.count += len(picked)
    begin = 0
    for end in range(1, len(picked) + 1):
        if end == len(picked) or not _follows(picked[end - 1][1], picked[end][1]):
            reading.runs.append(_run(committed, picked[begin:end], has_clock=has_clock))
            begin = end
    return True


def _follows(last: LoggedChange, change: LoggedChange) -> bool:
    return (
        change.offset == last.offset + 1
        and change.shard == last.shard
        and change.stream == last.stream
    )


def _run(committed: Committed, picked: list[tuple[int, LoggedChange]], *, has_clock: bool) -> Run:
    first = picked[0][1]
    return Run(
        committed.clock,
        committed.transaction,
        len(committed.changes),
        first.stream,
        first.shard,
        committed.at_ms,
        first.offset,
        tuple([RowChange(n, each.key, each.op, each.row, each.before) for n, each in picked]),
        has_clock,
    )


def answer(reading: Reading, index: Index) -> Message:
    """The answer, when the reading wants no more."""
    message = reading.message
    if isinstance(message, GetLatest):
        return Latest(message.request, reading.found[0] if reading.found else None)
    if isinstance(message, ReadEntries):
        return Entries(message.request, tuple(reading.found), tuple(reading.epochs))
    more = reading.next < reading.stop
    visible = reading.visible
    through = visible if message.up_to is None else min(visible, message.up_to)
    if more:
        through = index.places.clock_of(reading.next - 1)
    if reading.after_clock is not None:
        through = max(through, reading.after_clock)
    return FeedPage(message.request, tuple(reading.runs), through, visible, more)
