"""Reading back: pages of the feed, entries of a shard, the latest change of a key.

All of them read a range of the log, pick what was asked for, and go on with the next range until the
page is full, the log ends, or enough has been looked at for one request. Only what is durable is read.

What is kept of a feed, and for whom, follows P1 and P2 of :mod:`motet.core.streams.orders`, by stream. What
is pruned is not shown in the feed any more; the log, which it shares with other streams,
gives it back a file at a time (``clearing``).

The feed of several streams begins at the highest of their low watermarks. Below it some of them would be
missing, and with them parts of transactions. A reader that names no clock is refused
if others of the streams have more (``common_begin``).

Where to cut the feed into splits is found by counting the changes of the records, without reading any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Message
from motet.core.onelog.index import Index, Places
from motet.core.onelog.messages import (
    DescribeFeed,
    Entries,
    FeedDescribed,
    FeedPage,
    FeedSplit,
    GetLatest,
    KeptFeed,
    Latest,
    ReadEntries,
    ReadFeed,
    SplitFeed,
)
from motet.core.onelog.record import (
    CommittedRecord,
    CompactedRecord,
    LoggedChange,
    decode_record,
    feed_change,
    shown_change,
)
from motet.core.shardlog.entry import Entry, EntryKind, entry_bytes
from motet.core.streams.change import FeedChange, RowChange, Run
from motet.core.streams.orders import KeptFrom, common_begin
from motet.errors.shards import CursorExpired, OffsetExpired
from motet.ids import Address, Epoch, Offset, StreamName
from motet.limits import page_bytes_max

RANGE_BYTES = 256 * 1024
"""One read of the log, unless a single record is longer."""


class PageReading(msgspec.Struct):
    """One request that is being served from the log."""

    client: Address
    message: ReadFeed | ReadEntries | GetLatest
    #: the next record to look at, and the one after the last
    next: int
    stop: int
    #: the visible clock when the reading began: what came later was not looked at
    visible: Clock
    #: of the feed: the clock after which it began; None for the beginning of everything
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
        """The entry of the log after which the reading goes on."""
        return Offset(self.next)

    @property
    def bytes_max(self) -> int:
        """How much of the log to read next; one entry at least."""
        return 1 if isinstance(self.message, GetLatest) else RANGE_BYTES


def begin(
    index: Index, visible: Clock, client: Address, message: ReadFeed | ReadEntries | GetLatest
) -> PageReading:
    """Where a request begins in the log, and where it ends at the latest."""
    stop = index.places.stop
    if isinstance(message, ReadFeed):
        if message.up_to is not None:
            stop = min(stop, index.places.first_after(message.up_to))
        after = begin_of(index, message.streams, message.after)
        return PageReading(client, message, index.places.first_after(after), stop, visible, after)
    stream = index.streams[message.stream]
    if isinstance(message, GetLatest):
        latest = stream.latest.get(message.key)
        first = stop if latest is None else latest.sequence
        return PageReading(client, message, first, stop if latest is None else first + 1, visible)
    entries, kept = stream.entries[message.shard], stream.firsts[message.shard]
    wanted = max(message.after + 1, 0)
    if wanted < kept:
        raise OffsetExpired(
            f"record {wanted} is no longer kept", hint=f"the first one that is there is {kept}"
        )
    first = entries[wanted - kept] if wanted - kept < len(entries) else stop
    return PageReading(client, message, first, stop, visible)


def take(reading: PageReading, entries: Sequence[Entry], index: Index) -> None:
    """Pick from the range what was asked for; ``BadRecord`` when it is not what was written."""
    for entry in entries:
        if reading.next >= reading.stop:
            return
        assert entry.id.offset == reading.next + 1, "a log has no gap"
        reading.looked_at_bytes += entry_bytes(entry)
        if entry.kind == EntryKind.COMMITTED:
            committed = decode_record(entry)
            assert isinstance(committed, CommittedRecord)
            has_clock = index.has_clock_at(committed.clock)
            if not _pick(reading, committed, entry.id.epoch, has_clock=has_clock):
                reading.is_full = True
                return
        elif entry.kind == EntryKind.CHANGES_COMPACTED and isinstance(reading.message, GetLatest):
            _pick_compacted(reading, reading.message, entry, index)
        reading.next += 1


def _pick(
    reading: PageReading, committed: CommittedRecord, epoch: Epoch, *, has_clock: bool
) -> bool:
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


def _pick_compacted(reading: PageReading, message: GetLatest, entry: Entry, index: Index) -> None:
    compacted = decode_record(entry)
    assert isinstance(compacted, CompactedRecord)
    reading.found = [
        shown_change(each, has_clock=index.has_clock_at(each.clock))
        for each in compacted.changes
        if each.change.stream == message.stream and each.change.key == message.key
    ]


def _pick_runs(
    reading: PageReading, message: ReadFeed, committed: CommittedRecord, *, has_clock: bool
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


def _run(
    committed: CommittedRecord, picked: list[tuple[int, LoggedChange]], *, has_clock: bool
) -> Run:
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


def answer(reading: PageReading, index: Index) -> Message:
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


def describe(index: Index, message: DescribeFeed) -> FeedDescribed:
    """What is kept of these streams, of all if none is named."""
    names = message.streams or sorted(index.streams)
    kept = []
    for name in names:
        rules = index.streams[name].rules
        kept.append(KeptFeed(name, tuple(sorted(rules.cursors.items())), rules.low_watermark))
    return FeedDescribed(message.request, tuple(kept))


def begin_of(index: Index, streams: Iterable[StreamName], after: Clock | None) -> Clock | None:
    """Where a reader of these streams begins who has everything up to a clock.

    The beginning is the low watermark, if all have the same; a clock below it is ``CursorExpired``.
    """
    known = [index.streams[name] for name in streams if name in index.streams]
    low_watermark = max((stream.rules.low_watermark for stream in known), default=ZERO)
    if after is None or after == ZERO:
        common_begin(
            [KeptFrom(each.name, each.rules.low_watermark, each.created) for each in known]
        )
        return low_watermark if low_watermark > ZERO else after
    if after < low_watermark:
        raise CursorExpired(
            f"the feed is pruned up to {low_watermark}", hint=f"read on after {low_watermark}"
        )
    return after


def split(index: Index, message: SplitFeed, database: int, visible: Clock) -> FeedSplit:
    """The slice above ``after``, cut into splits of about the same size.

    It ends with a record that has changes, so a reader who follows is not woken by anything else: what
    is published from the feed would otherwise look like news to the one who publishes.
    """
    places = index.places
    after = begin_of(index, message.streams, message.after)
    first = places.first_after(after)
    stop = places.first_after(visible if message.up_to is None else min(visible, message.up_to))
    base = places.total_before(first)
    end = places.total_before(stop) if stop > first else base
    last_total = places.total_before(places.first_after(visible))
    if message.changes_max is not None and end - base > message.changes_max:
        # The record that goes beyond the bound is left out, unless it is the first with changes.
        end = places.total_before(places.exceeding(base + message.changes_max, first, stop))
        if end == base:
            end = places.total_before(places.exceeding(base, first, stop) + 1)
    if end == base:
        bounds: tuple[Clock, ...] = (after or ZERO,)
    else:
        bounds = _bounds(places, base, end, first, stop, message.splits)
    return FeedSplit(
        message.request, database, visible, bounds, end - base, max(last_total - end, 0)
    )


def _bounds(
    places: Places, base: int, end: int, first: int, stop: int, splits: int
) -> tuple[Clock, ...]:
    found: list[Clock] = []
    for number in range(1, splits + 1):
        target = base + (end - base) * number // splits
        if target == base:
            continue
        clock = places.clock_of(places.reaching(target, first, stop))
        if not found or clock > found[-1]:
            found.append(clock)
    return tuple(found)
