"""Trimming the log: whole segments from its beginning, those that are pruned.

The leader decides, and says in its messages where its log begins; followers trim to the same place.

D1  Nothing is trimmed that is not committed, applied, and part of a state that is on disk.
D2  The segment that is being written is never trimmed.
"""

from __future__ import annotations

from motet.core.shardlog import storage
from motet.core.shardlog.applying import put_state_on_disk
from motet.core.shardlog.context import Core
from motet.core.shardlog.log import Log
from motet.core.shardlog.state import Status
from motet.ids import Offset


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
    safe = Offset(state.state_head.offset + 1)
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
