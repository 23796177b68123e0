"""Applying what is committed, putting the state on disk now and then, and trimming the log.

P1  Entries are applied once, in order, when they are committed and durable here.
P2  The state on disk is applied exactly up to the entry that its file names. A log is never trimmed beyond
    it.

The log is trimmed by whole segments from its beginning, those that are pruned. The leader decides, and says
in its messages where its log begins; followers trim to the same place.

D1  Nothing is trimmed that is not committed, applied, and part of a state that is on disk.
D2  The segment that is being written is never trimmed.

Some of what a log holds is needed although nobody reads that far back any more: the latest change of a key.
It is compacted: written once more, at the end, so that the file can go. The arithmetic of that is here too,
and knows nothing of keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

import msgspec

from motet.core.machine import Replace
from motet.core.shardlog import fencing, reading, storage
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import Entry, entry_bytes
from motet.core.shardlog.log import Log
from motet.core.shardlog.meta import encode_state, state_file
from motet.core.shardlog.state import Purpose, Reading, State, Status
from motet.errors import BadBytes
from motet.ids import Offset, WriteId

UNREADABLE = (BadBytes, msgspec.MsgspecError)
"""What is raised for the body of an entry that is none."""


def apply(core: Core) -> None:
    """Apply what can be applied now."""
    state, log = core.state, core.state.log
    limit = min(state.commit_index.offset, log.durable)
    if state.applied >= limit or state.is_damaged or state.status is Status.RECOVERING:
        return
    if any(each.purpose is Purpose.APPLY for each in state.readings.values()):
        return
    while state.applied < limit:
        asked = Reading(Purpose.APPLY, state.applied, limit, core.config.read_bytes)
        if not reading.begin(core, asked):
            return
        if not apply_entries(core, asked.entries):
            return
    log.forget_tail(core.config.tail_bytes_max, Offset(min(state.applied, log.durable)))
    put_state_on_disk(core)


def apply_entries(core: Core, entries: Sequence[Entry]) -> bool:
    """Apply entries that are next, committed and durable (P1); False if one of them cannot be read."""
    state = core.state
    machine = core.machine
    for entry in entries:
        if entry.id.offset != state.applied + 1:
            continue  # a snapshot was installed while they were read
        try:
            machine.apply(entry)
        except UNREADABLE as error:
            if core.config.is_alone:
                raise
            # Whoever pushed it was wrong. It is in our log and in nobody else's, or all of them have it.
            fencing.find_damage(core, f"entry {entry.id} cannot be applied: {error}")
            return False
        state.applied, state.applied_clock = entry.id.offset, entry.clock
        state.is_trim_due = True
        state.applied_bytes += entry_bytes(entry)
        state.unapplied_bytes = max(0, state.unapplied_bytes - len(entry.body))
    return True


def put_state_on_disk(core: Core, *, is_wanted: bool = False) -> None:
    """Write the state down if much has been applied since, or somebody wants it."""
    state = core.state
    if state.state_write is not None or state.applied == state.state_head.offset:
        return
    if state.applied_bytes < core.config.snapshot_every_bytes and not is_wanted:
        return
    if state.is_disk_full or state.installing is not None:
        return
    state.applied_bytes = 0
    head = state.log.runs.id_at(state.applied)
    number = state.next_number
    state.next_number += 1
    data = encode_state(core.shard, head, state.applied_clock, core.machine.snapshot())
    write = core.change(Replace(core.effects.new_write(), state_file(core.shard, number), data))
    state.state_write = write, number, head


def state_written(core: Core, write: WriteId) -> bool:
    """A state is durable: name it in the meta file, and the one before becomes garbage (P2)."""
    state = core.state
    if state.state_write is None or state.state_write[0] != write:
        return False
    _, number, head = state.state_write
    state.state_write = None
    storage.discard_state(core, state.state_number)
    state.state_number, state.state_head = number, head
    state.is_trim_due = True
    storage.write_meta(core)
    core.note("state_on_disk", f"up to {head}")
    return True


def trim(core: Core) -> None:
    """Trim what may go. Called now and then."""
    state = core.state
    state.is_trim_due = False
    if state.status is Status.LEADER:
        wanted = _wanted_first(core, state.log)
    elif state.status is Status.FOLLOWER:
        wanted = state.leader_first
    else:
        return
    if wanted <= state.log.first:
        return
    safe = _safe_first(state)
    if safe < wanted <= state.applied + 1:
        put_state_on_disk(core, is_wanted=True)  # D1: the state goes first
    first = min(wanted, safe)
    before = state.log.first
    gone = state.log.trim(first)
    if gone:
        storage.discard(core, gone)
        storage.write_meta(core)
        core.note("trimmed", f"from {before} to {state.log.first}")


def closed_ends(core: Core) -> list[Offset]:
    """The last entries of all segments that are not written to any more, oldest first."""
    return [segment.end for segment in core.state.log.segments if segment.end is not None]


def is_state_under_way(core: Core) -> bool:
    """Whether a state is on its way to the disk, without which nothing more can be trimmed (D1)."""
    return core.state.state_write is not None


def _safe_first(state: State) -> Offset:
    """D1: everything before it is part of the state that is on disk."""
    return Offset(state.state_head.offset + 1)


def _wanted_first(core: Core, log: Log) -> Offset:
    """The first entry that is to be kept, as far as it is pruned."""
    state, keep_bytes = core.state, core.config.keep_bytes
    pruned = state.pruned_from
    if keep_bytes is None and pruned is None:
        return log.first
    size_bytes, first = log.size_bytes, log.first
    for segment in log.segments:
        is_too_much = keep_bytes is not None and size_bytes > keep_bytes
        is_pruned = pruned is not None and segment.end is not None and segment.end < pruned
        if segment.end is None or not (is_too_much or is_pruned):
            break
        size_bytes -= segment.size_bytes
        first = Offset(segment.end + 1)
    limits = [first, Offset(state.commit_index.offset + 1)]
    limits += [given.snapshot.first_offset for given in state.given.values()]
    if state.keep_from is not None:
        limits.append(state.keep_from)
    return min(limits)


def worth_compacting(
    bounds: Sequence[int], held: Sequence[int], total_before: Callable[[int], int]
) -> int | None:
    """The last of the places before which files may end, if what is there is worth compacting; None for none.

    ``held`` are the places of what is needed, rising. Files of which more than half is needed stay: otherwise
    the same would be written again and again, to no end.
    """
    for bound in reversed(bounds):
        if 2 * bisect_left(held, bound) <= total_before(bound):
            return bound
    return None


def piece_of(sizes_bytes: Iterable[int], bytes_max: int) -> int:
    """How many of the first go into one entry: as many as fit, but one at least, if there is one."""
    total_bytes, count = 0, 0
    for size_bytes in sizes_bytes:
        total_bytes += size_bytes
        if count and total_bytes > bytes_max:
            break
        count += 1
    return count
