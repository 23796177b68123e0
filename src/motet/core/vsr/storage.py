"""Writing the log and the superblock.

The log. A prepare is written, synced, and then acknowledged. Its redundant header is written after that,
together with the next prepare (or when a heartbeat passes), and becomes durable with that one's sync: no
prepare shares a sync with its own header. So one of the two is always whole.

The superblock. Four copies, written in two halves with a sync between them, one superblock at a time;
what changes meanwhile goes into the next. What it has to say is put together when its writing begins.

S1  No prepare is written while a newer view is on its way to the superblock: a log that was changed for a
    view must not be taken for the log of an older one after a crash.
S2  A replica that catches up writes the log of the view over that of its older log_view, but only where the
    superblock says that everything is committed: what it has acknowledged there and lacks after a crash, its
    do_view_change cannot deny.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.vsr.context import SUPERBLOCK, WAL, Core
from motet.core.vsr.header import Header, encode_header
from motet.core.vsr.journal import Cached, Writing
from motet.core.vsr.state import Status
from motet.core.vsr.superblock import (
    Checkpoint,
    Superblock,
    copy_offset,
    encode_copy,
    following,
    write_order,
)
from motet.core.vsr.wal_layout import encode_prepare
from motet.ids import Op, WriteId

# Prepares


def keep_prepare(core: Core, header: Header, body: bytes) -> None:
    """The log has this prepare: remember it, and write it unless it is written or being written."""
    journal = core.state.journal
    journal.set_header(header)
    journal.cache[header.op] = Cached(header, body)
    write_prepare(core, header)


def write_prepare(core: Core, header: Header) -> None:
    """Put a prepare that is in memory on disk, as soon as that is allowed."""
    journal = core.state.journal
    cached = journal.cached(header)
    if cached is None or journal.is_clean(header.op) or journal.is_being_written(header):
        return
    if not _may_write(core, header):
        return
    slot = header.op % journal.slots
    write_due_headers(core, besides=slot)
    offset = core.layout.prepare_offset(slot)
    write = core.write(WAL, offset, encode_prepare(header, cached.body))
    core.state.prepare_writes[write] = slot
    journal.writing[slot] = Writing(header.op, header.checksum, write)


def _may_write(core: Core, header: Header) -> bool:
    state, superblock = core.state, core.state.superblock
    if superblock is None or not core.is_view_durable or state.is_disk_full:
        return False  # S1
    return not state.catching_up or header.op <= superblock.commit_max  # S2


def prepare_failed(core: Core, write: WriteId) -> None:
    """The disk is full. The prepare stays in memory, and is written again later."""
    state = core.state
    slot = state.prepare_writes.pop(write)
    writing = state.journal.writing.get(slot)
    if writing is not None and writing.write == write:
        del state.journal.writing[slot]
    state.is_disk_full = True


def write_kept_prepares(core: Core) -> None:
    """Begin the writes that could not begin before."""
    journal = core.state.journal
    for op in sorted(journal.cache):
        header = journal.header(op)
        if header is not None and not journal.is_clean(op):
            write_prepare(core, header)


def write_due_headers(core: Core, besides: int = -1) -> None:
    """Write the redundant headers of prepares that are durable."""
    journal = core.state.journal
    for slot in list(journal.headers_due):
        header = journal.headers[slot]
        if slot == besides:
            continue
        del journal.headers_due[slot]
        if header is not None and not journal.dirty[slot]:
            write = core.write(WAL, core.layout.header_offset(slot), encode_header(header))
            core.state.other_writes[write] = None


def forget_old_prepares(core: Core) -> None:
    """Keep in memory what is not committed or not written, and a few more for peers that ask."""
    journal, commit_min = core.state.journal, core.state.commit_min
    keep_from = commit_min - 4 * core.config.pipeline_max
    for op in sorted(journal.cache):
        if op >= keep_from:
            break
        header = journal.header(op)
        if header is None or journal.is_clean(op) or op <= core.checkpoint_op:
            del journal.cache[op]


# The superblock


def want_superblock(core: Core) -> None:
    """Have the state of the replica in the superblock, once what is being written there is done."""
    core.state.superblock_due = True


def can_write_superblock(core: Core) -> bool:
    """None is under way, and the disk takes one."""
    state = core.state
    return state.superblock_next is None and state.superblock is not None and not state.is_disk_full


def write_due_superblock(core: Core) -> None:
    """Begin to write it, if one is due and none is under way."""
    if core.state.superblock_due and can_write_superblock(core):
        write_superblock(core)


def write_superblock(
    core: Core, checkpoint: Checkpoint | None = None, *, syncing: bool | None = None
) -> None:
    """Begin to write what the replica is, with another checkpoint if one is given."""
    assert can_write_superblock(core)
    state = core.state
    before = state.superblock
    assert before is not None
    state.superblock_due = False
    after = msgspec.structs.replace(
        before,
        view=state.view,
        log_view=state.log_view,
        commit_max=state.commit_max,
        view_headers=view_headers(core),
        checkpoint=checkpoint or before.checkpoint,
        syncing=before.syncing if syncing is None else syncing,
    )
    state.superblock_next = following(before, after)
    state.superblock_half = 0
    _write_half(core)


def _write_half(core: Core) -> None:
    _write_copies(core, write_order[core.state.superblock_half])


def _write_copies(core: Core, numbers: Sequence[int]) -> None:
    state = core.state
    assert state.superblock_next is not None
    data = encode_copy(state.superblock_next)
    for number in numbers:
        state.superblock_writes[core.write(SUPERBLOCK, copy_offset(number), data)] = None


def write_stale_copies(core: Core, superblock: Superblock, numbers: Sequence[int]) -> None:
    """Make all copies equal again, before another superblock goes over those that are believed."""
    state = core.state
    if numbers:
        state.superblock_next = superblock
        state.superblock_half = len(write_order) - 1
        _write_copies(core, numbers)


def superblock_written(core: Core, write: WriteId) -> bool:
    """One of its copies is durable; True when all of them are."""
    state = core.state
    del state.superblock_writes[write]
    if state.superblock_writes or state.superblock_has_failed:
        return False
    state.superblock_half += 1
    if state.superblock_half < len(write_order):
        _write_half(core)
        return False
    assert state.superblock is not None
    assert state.superblock_next is not None
    assert state.superblock_next.view >= state.superblock.view
    assert state.superblock_next.checkpoint.op >= state.superblock.checkpoint.op
    state.superblock, state.superblock_next = state.superblock_next, None
    return True


def superblock_failed(core: Core, write: WriteId) -> None:
    """The disk is full. The same superblock is written again: another of its number would be a fork."""
    state = core.state
    del state.superblock_writes[write]
    state.superblock_has_failed = state.is_disk_full = True


def retry_superblock(core: Core) -> None:
    """Perhaps there is room now: all of its copies once more."""
    state = core.state
    if state.superblock_has_failed and not state.superblock_writes:
        state.superblock_has_failed = False
        state.superblock_half = 0
        _write_half(core)


def view_headers(core: Core) -> tuple[Header, ...]:
    """The newest headers, from the head down: what a do_view_change or start_view is made of."""
    state = core.state
    if state.status is Status.RECOVERING_HEAD and state.superblock is not None:
        return state.superblock.view_headers
    lowest = max(state.op - core.config.pipeline_max, 0)
    found = (state.journal.header(Op(op)) for op in range(state.op, lowest - 1, -1))
    return tuple(header for header in found if header is not None)
