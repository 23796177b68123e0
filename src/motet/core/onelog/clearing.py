"""Giving disk back: what no feed shows any more goes from the beginning of the log, whole files at a time.

The log has all streams in it, so a file goes when every stream is pruned beyond it. What else it
holds is in the index, which is put on disk first: streams, tokens, cursors. Only rows are not. So
the latest change of a key that lies in such a file is *carried*: it is written once more, as it was, in a
record that no feed shows. Trimming itself is the log's (:mod:`motet.core.shardlog.applying`), as on a
cluster.

::

    pruned ──▶ carry what keys need ──▶ forget it in the index ──▶ index on disk ──▶ trim ──▶ tell who pruned

S7  Where the latest change of a key is, and whatever a feed shows, is in the log.

A crash anywhere leaves a log that has more than it needs, and the next start goes on with it. Files of which
more than half would have to be carried stay: otherwise the same rows would be written again and again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from motet.core.clock.hlc import ZERO
from motet.core.machine import Effect, Note, Now, Send
from motet.core.onelog import writing
from motet.core.onelog.context import Clearing, Core, WaitingRequest
from motet.core.onelog.index import Index
from motet.core.onelog.messages import FeedObeyed, StreamsRefused
from motet.core.onelog.plan import Compact
from motet.core.onelog.reading import RANGE_BYTES
from motet.core.onelog.record import (
    CommittedRecord,
    CompactedChange,
    CompactedRecord,
    carry,
    decode_record,
)
from motet.core.onelog.starting import OPERATOR
from motet.core.shardlog import applying
from motet.core.shardlog.applying import piece_of, worth_compacting
from motet.core.shardlog.entry import Entry
from motet.core.shardlog.shards import BEAT
from motet.core.shardlog.state import FinishedRead
from motet.errors import BadRecord
from motet.ids import Offset, RequestId, StreamName
from motet.limits import page_bytes_max

COMPACTION = RequestId(0)


def go_on(core: Core, effects: list[Effect], now: Now) -> list[Effect]:
    """After a step, with what it wants done: do what can be done now."""
    state = core.state
    while True:
        clearing = state.clearing
        if clearing is not None:
            effects = _overhear(clearing, effects)
            further = _advance(core, clearing, now)
            if further is None:
                return effects
            effects += further
        elif state.is_clearing_due:
            state.is_clearing_due = False
            state.clearing = _plan(core)
        else:
            told, state.cleared_for = state.cleared_for, []
            return effects + [answer.send for answer in told]


def _overhear(clearing: Clearing, effects: list[Effect]) -> list[Effect]:
    """What came of our own records is for nobody else."""
    kept: list[Effect] = []
    for effect in effects:
        if not isinstance(effect, Send) or effect.to != OPERATOR:
            kept.append(effect)
        elif isinstance(effect.message, FeedObeyed):
            clearing.is_compacting = False
        elif isinstance(effect.message, StreamsRefused):
            clearing.is_compacting, clearing.failure = False, effect.message.what
    return kept


def _advance(core: Core, clearing: Clearing, now: Now) -> list[Effect] | None:
    """Do the next thing; None if something else has to happen before."""
    if clearing.failure is not None:
        core.state.clearing = None
        return [Note("streams_not_cleared", clearing.failure)]
    if clearing.is_compacting or clearing.reading is not None:
        return None
    if clearing.compaction:
        return _compact(core, clearing, now)
    if clearing.holding:
        return _read(core, clearing)
    return _trim(core, clearing, now)


# What can go


def _plan(core: Core) -> Clearing | None:
    """How much of the log can go, and what has to be carried for that; None for nothing."""
    index, log = core.index, core.log
    if all(stream.rules.low_watermark == ZERO for stream in index.streams.values()):
        return None
    pruned = pruned_before(index)
    ends = applying.closed_ends(log.core)
    ends = ends[: bisect_right(ends, pruned)]
    if not ends:
        return None
    held = _holding(index, ends[-1])
    first = log.first_offset - 1

    def total_before(until: int) -> int:
        compacted = sum(count for at, count in index.compacted.items() if at < until)
        return index.places.total_before(until) - index.places.total_before(first) + compacted

    until = worth_compacting(ends, held, total_before)
    if until is None:
        return None
    return Clearing(until, sorted(set(held[: bisect_left(held, until)])))


def pruned_before(index: Index) -> int:
    """The first record that a feed may show, or the one after all: no stream needs what is before it."""
    places = index.places
    shown = [
        stream.first_at(places.first_after(stream.rules.low_watermark))
        for stream in index.streams.values()
    ]
    return min((at for at in shown if at is not None), default=places.stop)


def _holding(index: Index, until: int) -> list[int]:
    """Rising, one for each key: the records before ``until`` that hold the latest change of a key."""
    found: list[int] = []
    for stream in index.streams.values():
        for latest in stream.latest.values():  # in the order of the log
            if latest.sequence >= until:
                break
            found.append(latest.sequence)
    return sorted(found)


# Compaction


def _read(core: Core, clearing: Clearing) -> list[Effect]:
    clearing.reading, effects = core.log.read(Offset(clearing.holding[0]), RANGE_BYTES)
    for done in core.log.take_finished():  # it was in memory
        take(core, clearing, done)
    return effects


def take(core: Core, clearing: Clearing, done: FinishedRead) -> None:
    """Some of what has to be carried was read."""
    assert done.number == clearing.reading, "nobody else reads for it"
    clearing.reading = None
    holding, passed = clearing.holding, 0
    try:
        if done.error is not None:
            raise BadRecord(done.error[1])
        for entry in done.entries:
            if passed == len(holding):
                break
            if holding[passed] == entry.id.offset - 1:
                clearing.compaction += _needed(core.index, entry)
                passed += 1
    except BadRecord as error:
        clearing.failure = error.what
    del holding[:passed]


def _needed(index: Index, entry: Entry) -> list[CompactedChange]:
    """The latest changes of their keys that are in an entry."""
    record, sequence = decode_record(entry), entry.id.offset - 1
    found: list[CompactedChange] = []
    if isinstance(record, CommittedRecord):
        for at, change in enumerate(record.changes):
            if _is_latest(index, change.stream, change.key, sequence, at):
                found.append(carry(record, at))
    elif isinstance(record, CompactedRecord):
        for at, each in enumerate(record.changes):
            if _is_latest(index, each.change.stream, each.change.key, sequence, at):
                found.append(each)
    return found


def _is_latest(index: Index, stream: StreamName, key: bytes, sequence: int, at: int) -> bool:
    latest = index.streams[stream].latest[key]
    return (latest.sequence, latest.index) == (sequence, at)


def _compact(core: Core, clearing: Clearing, now: Now) -> list[Effect]:
    """Have some of what was read written once more, like any other record."""
    count = piece_of(map(_size_bytes, clearing.compaction), page_bytes_max)
    changes = tuple(clearing.compaction[:count])
    del clearing.compaction[:count]
    clearing.is_compacting = True
    core.state.waiting.append(WaitingRequest(OPERATOR, Compact(COMPACTION, changes), now.wall_ms))
    return writing.drain(core, now)


def _size_bytes(compacted: CompactedChange) -> int:
    change = compacted.change
    return len(change.key) + len(change.row or b"") + len(change.before or b"")


# Trimming


def _trim(core: Core, clearing: Clearing, now: Now) -> list[Effect] | None:
    """The log keeps nothing before ``until`` any more, once its state is on disk."""
    log = core.log
    if log.first_offset > clearing.until:
        core.state.clearing, core.state.segments = None, log.segments
        return [Note("streams_cleared", f"the log begins with entry {log.first_offset}")]
    if not clearing.is_trimming:
        core.index.forget(clearing.until)
        log.keep_from(None, Offset(clearing.until + 1))
    elif applying.is_state_under_way(log.core):
        return None
    effects = core.shards.on_fired(BEAT, now)
    is_begun = applying.is_state_under_way(log.core) and not clearing.is_trimming
    if log.first_offset <= clearing.until and not is_begun:
        clearing.failure = "the index could not be put on disk"
    clearing.is_trimming = True
    return effects
