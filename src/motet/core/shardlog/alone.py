"""What is different for a replica that is alone: an ensemble of one, for good.

The log of an embedded database is such a one. No other node ever has an entry of it, and none can repair it.

N1  What is on disk is committed: it is applied as it is read at a start, the whole log, before anything is
    written; what the state has already is read too. So damage anywhere is found before anything has changed.
N2  An entry that could not be written is taken back, with all after it, instead of tried again: nobody has
    it, and whoever wants it is told at once that there is no room.
N3  Damage is told and not written down: the files stay as they are for whoever can put them right. A page
    that cannot be read any more is refused, and the others are served.
"""

from __future__ import annotations

from motet.core.shardlog import leader, reading, storage
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import Entry, entry_bytes
from motet.core.shardlog.log import Log
from motet.core.shardlog.state import Purpose, Reading
from motet.errors import BadBytes


def apply_found(core: Core, entry: Entry) -> None:
    """An entry was found at a start (N1); one that is part of the state is only looked at."""
    state = core.state
    if entry.id.offset <= state.applied:
        return
    core.machine.apply(entry)
    state.applied, state.applied_clock = entry.id.offset, entry.clock
    state.applied_bytes += entry_bytes(entry)


def take_back(core: Core) -> None:
    """Give up what could not be written, once everything before it is durable (N2).

    The log goes on in a new segment. Until a meta file says so, what was written after the missing entry is
    a torn tail to whoever finds it.
    """
    state, log = core.state, core.state.log
    if not log.pending or not _has_failed(core, log):
        return
    core.note("taken_back", f"after {log.durable}, up to {log.head}")
    storage.discard(core, log.cut(log.durable))
    state.unapplied_bytes = 0
    storage.write_meta(core)
    if core.is_leader and log.durable < state.serving_offset:
        leader.abdicate(core, "its first entry could not be written")


def _has_failed(core: Core, log: Log) -> bool:
    """The oldest that is not durable will never be: it was not written, or no meta file names its segment."""
    oldest = log.pending[0]
    if oldest.has_failed:
        return True
    segment = log.numbered(oldest.segment)
    assert segment is not None, "it is the segment of an entry"
    is_unnamed = segment.meta_version > core.state.meta_durable
    return oldest.is_durable and is_unnamed and not core.state.meta_writes


def is_borne(core: Core, asked: Reading | None, error: BadBytes) -> bool:
    """Whether damage that was found on behalf of a reader is that reader's alone (N3)."""
    if not core.config.is_alone or asked is None or asked.purpose is not Purpose.CLIENT:
        return False
    core.note("rotten_read", error.what)
    reading.finish(core, asked, (error.code, error.what))
    return True
