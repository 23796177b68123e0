"""Writing a replica's files: entries into segments, the meta file, the state; and what to do on a full
disk.

An entry is in the log as soon as it has an id, and counts when it is durable: its own write, all writes
before it, and the meta file that names its segment. Plain writes of one turn are gathered by the driver.

A write that fails is tried again, the very same bytes: other nodes may have the entry already, so it cannot
be taken back. Until that has worked nothing new is taken in: appends are refused, and so is a leader that
pushes. What is durable is not affected.
"""

from __future__ import annotations

from collections.abc import Sequence

from motet.core.machine import Preallocate, Remove, Replace, Write
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import Entry, encode_entry
from motet.core.shardlog.log import Log, PendingWrite, Segment
from motet.core.shardlog.meta import (
    Meta,
    encode_meta,
    meta_file,
    meta_of_segment,
    segment_file,
    state_file,
)
from motet.format.checksum import crc32c
from motet.ids import Offset, WriteId

SEGMENT, STATE = "segment", "state"


# Entries


def append(core: Core, log: Log, entries: Sequence[Entry]) -> None:
    """Put entries after the head: into memory now, onto the disk with the next sync."""
    segment = _growing(core, log)
    durable_below = Offset(log.durable + 1)
    step_bytes, segment_bytes = core.config.index_step_bytes, core.config.segment_bytes
    batch: list[bytes] = []
    place = segment.size_bytes
    for entry in entries:
        data = encode_entry(segment.salt, entry, durable_below)
        if segment.size_bytes and segment.size_bytes + len(data) > segment_bytes:
            _write(core, log, segment, place, batch)
            segment, batch, place = _begin_segment(core, log), [], 0
            data = encode_entry(segment.salt, entry, durable_below)
        segment.mark(entry.id.offset, segment.size_bytes, step_bytes)
        segment.size_bytes += len(data)
        segment.clock = entry.clock
        log.add(entry)
        batch.append(data)
    _write(core, log, segment, place, batch)


def _write(core: Core, log: Log, segment: Segment, place: int, batch: list[bytes]) -> None:
    if not batch:
        return
    file = segment_file(core.shard, segment.number)
    config = core.config
    if segment.size_bytes > segment.allocated_bytes:
        grown = segment.size_bytes + config.preallocate_bytes
        segment.allocated_bytes = max(segment.size_bytes, min(grown, config.segment_bytes))
        # If there is no room for that, writing will do it, or fail by itself.
        core.change(Preallocate(core.effects.new_write(), file, segment.allocated_bytes))
    data = batch[0] if len(batch) == 1 else b"".join(batch)
    write = core.change(Write(core.effects.new_write(), file, place, data))
    log.pending.append(PendingWrite(write, segment.number, place, data, log.head.offset))


def _growing(core: Core, log: Log) -> Segment:
    """The segment that the next entry goes to."""
    if log.segments and log.segments[-1].end is None:
        return log.segments[-1]
    return _begin_segment(core, log)


def _begin_segment(core: Core, log: Log) -> Segment:
    state = core.state
    if log.segments and log.segments[-1].end is None:
        log.segments[-1].end = log.head.offset
    number = state.next_number
    state.next_number += 1
    salt = (core.effects.nonce ^ crc32c(f"{core.shard} {number}".encode())) & (1 << 64) - 1
    segment = Segment(number, salt, Offset(log.head.offset + 1), clock=log.clock)
    log.segments.append(segment)
    write_meta(core)
    segment.meta_version = state.meta_version
    return segment


def entries_written(core: Core, log: Log, write: WriteId) -> bool:
    """A write of entries is durable; whether it was one of this log."""
    for pending in log.pending:
        if pending.write == write:
            pending.is_durable, pending.has_failed = True, False
            advance_durable(core, log)
            _look_for_room(core)
            return True
    return False


def advance_durable(core: Core, log: Log) -> None:
    """Work out how far the log is on disk."""
    done = 0
    for pending in log.pending:
        if not pending.is_durable:
            break
        segment = log.numbered(pending.segment)
        if segment is not None and segment.meta_version > core.state.meta_durable:
            break
        log.durable = max(log.durable, pending.last)
        done += 1
    del log.pending[:done]


# The meta file


def write_meta(core: Core) -> WriteId:
    """Write down how things are now."""
    state, log = core.state, core.state.log
    state.meta_version += 1
    installing = state.installing
    # What is being fetched is not ours before it is complete: after a crash it is to be removed.
    fetched = [] if installing is None else installing.log.segments
    runs = log.runs
    meta = Meta(
        version=state.meta_version,
        epoch=state.epoch,
        is_member=state.is_member,
        is_damaged=state.is_damaged,
        base=runs.base,
        epochs=tuple(runs.epochs),
        firsts=tuple(runs.firsts),
        head=runs.head,
        clock=log.clock,
        durable=log.durable,
        segments=tuple(meta_of_segment(segment) for segment in log.segments),
        next_number=state.next_number,
        state_number=state.state_number,
        state_head=state.state_head,
        garbage=(*state.garbage, *(segment.number for segment in fetched)),
        state_garbage=(*state.state_garbage, *_unnamed_states(core)),
        damaged=tuple(state.damaged),
    )
    data = encode_meta(core.shard, meta)
    write = core.change(Replace(core.effects.new_write(), meta_file(core.shard), data))
    state.meta_writes[write] = state.meta_version, state.epoch
    return write


def _unnamed_states(core: Core) -> list[int]:
    """States on their way to the disk, which no meta file names yet."""
    state = core.state
    numbers = [] if state.state_write is None else [state.state_write[1]]
    if state.installing is not None and state.installing.state_number:
        numbers.append(state.installing.state_number)
    return [number for number in numbers if number != state.state_number]


def meta_written(core: Core, write: WriteId) -> bool:
    """The meta file is durable; whether it was that."""
    state = core.state
    known = state.meta_writes.pop(write, None)
    if known is None:
        return False
    state.meta_durable = max(state.meta_durable, known[0])
    state.epoch_durable = max(state.epoch_durable, known[1])
    state.is_meta_due = False
    _look_for_room(core)
    advance_durable(core, state.log)
    if state.installing is not None:
        advance_durable(core, state.installing.log)
    remove_garbage(core)
    return True


def newest_meta(core: Core) -> WriteId | None:
    """What an answer about the present state has to wait for; None when it is durable."""
    state = core.state
    if state.meta_version <= state.meta_durable:
        return None
    for write, (version, _) in state.meta_writes.items():
        if version == state.meta_version:
            return write
    return write_meta(core)  # the last one failed


# What is not needed any more


def discard(core: Core, numbers: Sequence[int]) -> None:
    """Remove these segments once a meta file without them, the next one, is durable."""
    version = core.state.meta_version + 1
    for number in numbers:
        core.state.garbage[number] = version


def discard_state(core: Core, number: int) -> None:
    """The same for a state; 0 is none."""
    if number:
        core.state.state_garbage[number] = core.state.meta_version + 1


def remove_garbage(core: Core) -> None:
    """Remove files that no meta file will ever name again."""
    state = core.state
    if not state.garbage and not state.state_garbage:
        return
    under_way = list(state.removals.values())
    for kind, garbage in ((SEGMENT, state.garbage), (STATE, state.state_garbage)):
        for number, version in garbage.items():
            if version > state.meta_durable or (kind, number) in under_way:
                continue
            file = (segment_file if kind == SEGMENT else state_file)(core.shard, number)
            write = core.change(Remove(core.effects.new_write(), file))
            state.removals[write] = kind, number


def removed(core: Core, write: WriteId) -> bool:
    """A file is gone; whether it was one of ours. The next meta file will not mention it."""
    state = core.state
    known = state.removals.pop(write, None)
    if known is None:
        return False
    kind, number = known
    (state.garbage if kind == SEGMENT else state.state_garbage).pop(number, None)
    return True


# A full disk


def write_failed(core: Core, write: WriteId, why: str) -> None:
    """There was no room. It is tried again by and by (``try_again``)."""
    state = core.state
    logs = [state.log] if state.installing is None else [state.log, state.installing.log]
    for log in logs:
        for pending in log.pending:
            if pending.write == write:
                pending.has_failed = state.is_disk_full = True
                core.note("disk_full", why)
                return
    if state.meta_writes.pop(write, None) is not None:
        state.is_meta_due = state.is_disk_full = True
        core.note("disk_full", why)
    elif state.state_write is not None and state.state_write[0] == write:
        discard_state(core, state.state_write[1])
        state.state_write = None
        core.note("state_not_written", why)
    elif state.installing is not None and state.installing.state_write == write:
        state.installing.state_write = None
        state.is_meta_due = state.is_disk_full = True  # the meta file shows when there is room
    state.removals.pop(write, None)


def try_again(core: Core) -> None:
    """Write again what could not be written."""
    state = core.state
    if not state.is_disk_full:
        return
    if state.is_meta_due and not state.meta_writes:
        write_meta(core)
    for pending in _failed(core):
        if pending.write not in core.effects.writers:
            file = segment_file(core.shard, pending.segment)
            change = Write(core.effects.new_write(), file, pending.place, pending.data)
            pending.write = core.change(change)


def _look_for_room(core: Core) -> None:
    """Something was written: if nothing is left that could not be, the disk is not full any more."""
    state = core.state
    if state.is_disk_full and not state.is_meta_due and not _failed(core):
        state.is_disk_full = False
        core.note("disk_has_room")


def _failed(core: Core) -> list[PendingWrite]:
    state = core.state
    found = [pending for pending in state.log.pending if pending.has_failed]
    if state.installing is not None:
        found += [pending for pending in state.installing.log.pending if pending.has_failed]
    return found
