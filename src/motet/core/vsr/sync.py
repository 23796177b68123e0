"""Fetching a whole checkpoint: for a replica that is so far behind that no log leads to the present any more.

The superblock names the new checkpoint first, as one that is not here yet (``syncing``): from then on the
old one may be overwritten, block by block, as the new ones come in. A crash in between goes on where it was:
blocks that are here already are found on the disk. If the others have moved on meanwhile and nobody has
these blocks any more, it begins again with a newer checkpoint. When all are here and durable, the state is
taken over, and the superblock says so.

Y1  While it syncs a replica acknowledges nothing: what it acknowledged would count as if it could be
    restored from here.
"""

from __future__ import annotations

from motet.core.vsr.context import Core
from motet.core.vsr.grid import restored_allocator
from motet.core.vsr.replies import read_replies
from motet.core.vsr.restore import RestorePhase, begin_restore
from motet.core.vsr.sessions import Sessions, decode_sessions
from motet.core.vsr.state import Status
from motet.core.vsr.storage import can_write_superblock, write_superblock
from motet.core.vsr.superblock import Checkpoint
from motet.ids import Op


def want_sync(core: Core, checkpoint: Checkpoint) -> None:
    """Begin to fetch this checkpoint, unless something else has to end first; it will be asked for again."""
    if core.state.checkpointing is None and can_write_superblock(core):
        assert checkpoint.op > core.checkpoint_op
        core.note("sync_begun", f"op {checkpoint.op}")
        write_superblock(core, checkpoint, syncing=True)


def begin_fetch(core: Core) -> None:
    """The superblock names a checkpoint that is not here: get it."""
    state, superblock = core.state, core.state.superblock
    assert superblock is not None
    checkpoint = superblock.checkpoint
    if state.checkpointing is not None:  # one of our own, that nobody needs any more
        state.other_writes.update(state.checkpointing.writes)
        state.checkpointing = None
    state.blocks_faulty, state.block_writes = {}, {}
    state.restore = begin_restore(core.config, checkpoint.root)
    take_checkpoint_header(core, checkpoint)
    state.commit_min = checkpoint.op
    state.commit_max = Op(max(state.commit_max, checkpoint.op))
    state.sessions, state.replies, state.replies_faulty = Sessions(), {}, {}


def take_checkpoint_header(core: Core, checkpoint: Checkpoint) -> None:
    """The log goes on from the checkpoint, even if its own header is not in the ring any more."""
    state = core.state
    if not state.journal.has(checkpoint.header):
        state.journal.set_header(checkpoint.header)
    if state.op < checkpoint.op:
        state.op = checkpoint.op
    if state.anchor_op is not None and state.anchor_op < checkpoint.op:
        state.anchor_op = checkpoint.op
    state.connected_op = Op(max(state.connected_op, checkpoint.op))


def finish_restore(core: Core) -> None:
    """Take over the state of a checkpoint when all its blocks are here."""
    state = core.state
    restore = state.restore
    if restore is None or state.other_writes or state.block_writes or state.blocks_faulty:
        return
    if restore.phase is RestorePhase.NONSENSE:
        _refuse(core, restore.failure)
        return
    if not restore.is_done:
        return
    pages, extra, table = restore.result()
    sessions = decode_sessions(core.config, extra) if extra else Sessions()
    if sessions is None:
        _refuse(core, "the sessions in the checkpoint mean nothing")
        return
    core.machine.restore(pages)
    state.sessions, state.table = sessions, table
    state.allocator = restored_allocator(table.refs())
    state.restore = None
    state.moved_monotonic_ns = core.now.monotonic_ns
    read_replies(core)


def _refuse(core: Core, why: str) -> None:
    core.state.status, core.state.refusal = Status.REFUSED, why


def end_sync(core: Core) -> None:
    """All is here: say so in the superblock."""
    if core.state.restore is None and can_write_superblock(core):
        core.note("synced", f"op {core.checkpoint_op}")
        write_superblock(core, syncing=False)
