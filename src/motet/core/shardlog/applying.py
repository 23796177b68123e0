"""Applying what is committed, and putting the state on disk now and then.

P1  Entries are applied once, in order, when they are committed and durable here.
P2  The state on disk is applied exactly up to the entry that its file names. A log is never trimmed beyond
    it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.machine import Replace
from motet.core.shardlog import fencing, reading, storage
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import Entry
from motet.core.shardlog.meta import encode_state, state_file
from motet.core.shardlog.records import entry_bytes
from motet.core.shardlog.state import Purpose, Reading, Status
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
