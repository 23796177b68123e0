"""Finding out about one's own past: the meta file, the state, and those segments that may end in a torn
write.

::

    meta ──▶ state ──▶ segments ──▶ fenced
      └────────┴──────────┴───────▶ fenced, damaged and not a member

The meta file says up to which entry everything was durable when it was written. Only segments after that
are read; the others are looked at when somebody wants their entries. Where the records stop, and nothing
proves that more had been durable, a crash has torn the last writes: the log is cut there. Where something
proves it, the log is damaged. It is never cut then: a replica that does not know what it has lost does not
count until it has been repaired from a peer.

What cannot be read at the moment is asked for again at the next beat; a replica that does not know its past
takes part in nothing. What cannot be read for long is damaged, too: otherwise nobody would ever repair it.
"""

from __future__ import annotations

from motet.core.shardlog import alone, fencing, storage
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import NO_ENTRY, Entry, decode_entry
from motet.core.shardlog.log import Log, Segment
from motet.core.shardlog.meta import (
    NO_META,
    Meta,
    decode_meta,
    decode_state,
    log_of,
    meta_file,
    segment_file,
    state_file,
)
from motet.core.shardlog.state import Recovery, Status
from motet.errors import BadBytes, BadRecord
from motet.format.journal import Ending, Record, Scan, scan
from motet.format.record import parse_header
from motet.ids import Offset, ReadId

META, STATE, SEGMENTS = "meta", "state", "segments"


def start(core: Core) -> None:
    """Read the first file, or the one that could not be read."""
    recovery = core.state.recovery
    if recovery is None or recovery.read is not None:
        return
    if recovery.step == META:
        file = meta_file(core.shard)
    elif recovery.step == STATE:
        file = state_file(core.shard, core.state.state_number)
    else:
        file = segment_file(core.shard, core.state.log.segments[recovery.at].number)
    recovery.read = core.read(file)


def on_read_back(core: Core, read: ReadId, data: bytes) -> bool:
    """A file has been read; whether it was one of these."""
    recovery = core.state.recovery
    if recovery is None or recovery.read != read:
        return False
    recovery.read, recovery.failures = None, 0
    try:
        if recovery.step == META:
            _take_meta(core, recovery, data)
        elif recovery.step == STATE:
            _take_state(core, recovery, data)
        else:
            _take_segment(core, recovery, data)
    except BadBytes as error:
        _finish(core)
        fencing.find_damage(core, error.what)
    return True


def on_read_failed(core: Core, read: ReadId, why: str) -> bool:
    """A file cannot be read at the moment; whether it was one of these."""
    recovery = core.state.recovery
    if recovery is None or recovery.read != read:
        return False
    recovery.read = None
    recovery.failures += 1
    core.note("unreadable", why)
    if recovery.failures >= core.config.unreadable_max:
        _finish(core)
        fencing.find_damage(core, why)
    return True


# The meta file


def _take_meta(core: Core, recovery: Recovery, data: bytes) -> None:
    # Without a file nothing was ever promised: it is written before anything is answered.
    meta = decode_meta(core.shard, data) if data else NO_META
    adopt_meta(core, meta)
    recovery.proven = meta.durable
    if meta.is_damaged:
        core.note("still_damaged")
        _finish(core)
        return
    recovery.at = _first_to_read(core)
    recovery.step = STATE if meta.state_number else SEGMENTS
    _next(core, recovery)


def adopt_meta(core: Core, meta: Meta) -> None:
    """Become what the meta file says."""
    state = core.state
    state.epoch = state.epoch_durable = meta.epoch
    state.is_member, state.is_damaged = meta.is_member, meta.is_damaged
    state.log = log_of(meta)
    state.meta_version = state.meta_durable = meta.version
    state.next_number = meta.next_number
    state.state_number, state.state_head = meta.state_number, meta.state_head
    state.garbage = dict.fromkeys(meta.garbage, meta.version)
    state.state_garbage = dict.fromkeys(meta.state_garbage, meta.version)
    state.damaged = list(meta.damaged)


def _first_to_read(core: Core) -> int:
    """The first segment that may end in something torn; a replica that is alone reads all of them."""
    log = core.state.log
    if core.config.is_alone:
        return 0
    for place, segment in enumerate(log.segments):
        if segment.end is None or segment.end > log.durable:
            return place
    return len(log.segments)


# The state


def _take_state(core: Core, recovery: Recovery, data: bytes) -> None:
    state = core.state
    head, clock, content = decode_state(core.shard, data)
    if head != state.state_head:
        raise BadRecord(f"the state is of {head}, it should be of {state.state_head}")
    core.machine.restore(content)
    state.applied, state.applied_clock = head.offset, clock
    state.commit_index = head
    recovery.step = SEGMENTS
    _next(core, recovery)


# Segments


def _take_segment(core: Core, recovery: Recovery, data: bytes) -> None:
    log = core.state.log
    segment = log.segments[recovery.at]
    found = scan(data, segment.salt, segment.first)
    if recovery.torn_at is not None:
        _look_for_proof(recovery, data, found)
    else:
        _take_records(core, recovery, segment, found)
    recovery.at += 1
    _next(core, recovery)


def _take_records(core: Core, recovery: Recovery, segment: Segment, found: Scan) -> None:
    log = core.state.log
    if recovery.at == _first_to_read(core):
        log.runs.cut(Offset(max(segment.first - 1, log.base.offset)))
    reached, segment.size_bytes = Offset(segment.first - 1), 0
    for record in found.records:
        if segment.end is not None and record.sequence > segment.end:
            break
        entry = _entry_of(log, record)
        if entry is None:
            break
        log.runs.add(entry.id)
        log.clock = max(log.clock, entry.clock)
        segment.clock = entry.clock
        segment.mark(entry.id.offset, record.offset, core.config.index_step_bytes)
        reached = entry.id.offset
        segment.size_bytes = _end_of(record, found)
        if core.config.is_alone:
            alone.apply_found(core, entry)
    is_short = segment.end is not None and reached < segment.end
    if (is_short or segment.end is None) and found.ending is Ending.DAMAGED:
        raise BadRecord(f"{_file_of(core, segment)} is damaged: {found.what}")
    if reached < recovery.proven and (is_short or segment.end is None):
        raise BadRecord(
            f"{_file_of(core, segment)} ends before entry {reached + 1}, which was on disk"
        )
    if segment.end is None and found.ending is Ending.CLEAN:
        return
    if segment.end is None or is_short:
        recovery.torn_at = reached


def _file_of(core: Core, segment: Segment) -> str:
    return segment_file(core.shard, segment.number)


def _entry_of(log: Log, record: Record) -> Entry | None:
    """The entry of a record; None for one that cannot be the next: it was left by an older life."""
    entry = decode_entry(record.sequence, record.kind, record.body)
    head = log.runs.head
    if entry.id.offset != head.offset + 1 or entry.id.epoch < head.epoch:
        return None
    return entry


def _end_of(record: Record, found: Scan) -> int:
    following = record.sequence - found.records[0].sequence + 1
    if following < len(found.records):
        return found.records[following].offset
    return found.end_offset


def _look_for_proof(recovery: Recovery, data: bytes, found: Scan) -> None:
    """A segment after a torn one: does it say that what is missing was durable?"""
    assert recovery.torn_at is not None
    for record in found.records:
        header = parse_header(data, record.offset)
        if header is not None and header.durable_below > recovery.torn_at + 1:
            raise BadRecord(f"entry {recovery.torn_at + 1} is gone, and was on disk")


def _next(core: Core, recovery: Recovery) -> None:
    log = core.state.log
    if recovery.step == SEGMENTS and recovery.at >= len(log.segments):
        _found_all(core, recovery)
    else:
        start(core)


def _found_all(core: Core, recovery: Recovery) -> None:
    state, log = core.state, core.state.log
    torn_at = recovery.torn_at
    if torn_at is not None:
        core.note("tail_cut", f"after {log.head}")
        storage.discard(core, [s.number for s in log.segments if s.first > torn_at])
        log.segments = [segment for segment in log.segments if segment.first <= torn_at]
        if log.segments:
            log.segments[-1].cut(torn_at)
    log.durable = log.head.offset
    if state.applied > log.durable or (state.applied < log.base.offset):
        raise BadRecord(f"the state is of entry {state.applied}, the log ends at {log.head}")
    if core.config.is_alone:
        state.commit_index = log.head
    if state.epoch < log.head.epoch:
        state.epoch = log.head.epoch  # the entry outlived the meta file: it was not answered
    _finish(core)
    if torn_at is not None or state.epoch != state.epoch_durable:
        storage.write_meta(core)
    core.note("recovered", f"epoch {state.epoch}, head {log.head}, applied {state.applied}")


def _finish(core: Core) -> None:
    state = core.state
    state.recovery = None
    state.status = Status.FENCED
    state.fenced_epoch = state.epoch if state.is_member else state.fenced_epoch
    core.effects.observe_clock(state.log.clock)
    core.effects.found = max(core.effects.found, state.log.clock)
    if state.is_damaged:
        state.log = Log.after(NO_ENTRY, state.log.clock)
    storage.remove_garbage(core)
