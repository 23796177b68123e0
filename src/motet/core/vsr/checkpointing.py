"""Checkpoints: the state at every ``checkpoint_ops``-th op on disk, so that the log below it can go.

The state machine hands over the pages that have changed, a few at a time, the table of sessions goes along,
and the whole is written to blocks that the last checkpoint does not use. When they and the replies are
durable, the superblock names the new checkpoint, and only then is what only the old one used free again.

Meanwhile the replica goes on executing; only the next checkpoint has to wait.

C1  At one checkpoint all replicas have the same blocks in the same places.
C2  No block lies beyond ``blocks_max``. A primary takes nothing new when the next checkpoint might not find
    its blocks: what is there can still be read.
"""

from __future__ import annotations

from motet.core.vsr.checkpoint import begin_build, build_more
from motet.core.vsr.commit import is_checkpoint_due
from motet.core.vsr.context import GRID, REPLIES, Core
from motet.core.vsr.grid import block_offset
from motet.core.vsr.replies import encode_reply, reply_offset
from motet.core.vsr.state import Checkpointing, Status
from motet.core.vsr.storage import (
    can_write_superblock,
    retry_superblock,
    write_kept_prepares,
    write_superblock,
)
from motet.core.vsr.superblock import Checkpoint
from motet.ids import TimerName, WriteId

DISK = TimerName("disk")
disk_retry_ms = 500
blocks_at_once = 16


def begin_checkpoint(core: Core) -> None:
    """Take one, if it is time and none is under way."""
    state = core.state
    if not is_checkpoint_due(core) or state.checkpointing is not None or core.is_syncing:
        return
    header = state.journal.header(state.commit_min)
    if header is None:
        return  # the ring has lost it; it is repaired first
    changed, sessions = core.machine.begin_pages(), state.sessions.encode()
    building = begin_build(core.config, state.allocator, changed, sessions)
    state.checkpointing = Checkpointing(building, header, {})
    _build_more(core, state.checkpointing)
    _write_replies(core, state.checkpointing)
    write_more_blocks(core)


def _build_more(core: Core, checkpointing: Checkpointing) -> None:
    state, building = core.state, checkpointing.building
    if building.root is not None:
        return
    take_page, table = core.machine.take_page, state.table
    is_built = build_more(core.config, table, state.allocator, building, take_page, blocks_at_once)
    if state.allocator.end > core.config.blocks_max:
        # A primary stops long before (``Core.has_room``). Nothing is written over, and nothing is lost.
        state.status = Status.REFUSED
        state.refusal = f"the state needs more than {core.config.blocks_max} blocks"
    elif is_built:
        blocks = len(building.writes)
        core.note("checkpoint", f"op {checkpointing.header.op}, {blocks} blocks")


def write_more_blocks(core: Core) -> None:
    """Some at a time: what waits for the disk meanwhile shall not wait for all of them."""
    checkpointing = core.state.checkpointing
    if checkpointing is None or checkpointing.writes or checkpointing.has_failed:
        return
    writes, first = checkpointing.building.writes, checkpointing.written
    if first + blocks_at_once > len(writes):
        _build_more(core, checkpointing)
    if core.state.status is Status.REFUSED:
        return
    for index, raw in writes[first : first + blocks_at_once]:
        offset = block_offset(index, core.config.block_bytes)
        checkpointing.writes[core.write(GRID, offset, raw)] = None
    checkpointing.written = min(len(writes), first + blocks_at_once)


def _write_replies(core: Core, checkpointing: Checkpointing) -> None:
    state = core.state
    for session in state.sessions.by_client.values():
        reply = state.replies.get(session.client)
        if session.last_op > core.checkpoint_op and reply is not None:
            offset = reply_offset(core.config, session.slot)
            checkpointing.writes[core.write(REPLIES, offset, encode_reply(reply))] = None


def finish_checkpoint(core: Core) -> None:
    """All of it is durable: name it in the superblock."""
    state, checkpointing = core.state, core.state.checkpointing
    if checkpointing is None or checkpointing.writes or checkpointing.has_failed:
        return
    root = checkpointing.building.root
    if root is None or checkpointing.written < len(checkpointing.building.writes):
        return
    if not can_write_superblock(core):
        return
    assert state.superblock is not None
    before = state.superblock.checkpoint
    if before.op >= checkpointing.header.op:
        return
    after = Checkpoint(
        op=checkpointing.header.op,
        header=checkpointing.header,
        root=root,
        parent_id=before.id,
        grandparent_id=before.parent_id,
    )
    write_superblock(core, after)


def checkpoint_named(core: Core) -> None:
    """A superblock is durable: if it has the new checkpoint, what only the old one used is free."""
    state, checkpointing = core.state, core.state.checkpointing
    if checkpointing is not None and core.checkpoint_op == checkpointing.header.op:
        state.checkpointing = None
        state.allocator.checkpoint_durable()
        core.note("checkpoint_durable", f"op {core.checkpoint_op}")


def block_write_failed(core: Core, write: WriteId) -> None:
    """The disk is full. The log still has its place; the checkpoint is tried again later."""
    checkpointing = core.state.checkpointing
    assert checkpointing is not None
    checkpointing.writes.pop(write, None)
    checkpointing.has_failed = True


def retry_writes(core: Core) -> None:
    """Perhaps there is room now."""
    core.state.is_disk_full = False
    retry_superblock(core)
    write_kept_prepares(core)
    checkpointing = core.state.checkpointing
    if checkpointing is not None and checkpointing.has_failed:
        checkpointing.has_failed = False
        checkpointing.written = 0
        _write_replies(core, checkpointing)
        write_more_blocks(core)
