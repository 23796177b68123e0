"""Blocks of a checkpoint: reading one's own, fetching what is damaged or missing from any peer.

A block is asked for by place and checksum, so it does not matter who answers. Whoever has it, at the same
place, sends it as it is on disk.
"""

from __future__ import annotations

from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.context import GRID, Core
from motet.core.vsr.grid import block_offset, decode_block
from motet.core.vsr.messages import Block, RequestBlocks
from motet.core.vsr.state import PendingRead, Status
from motet.ids import ReplicaIndex

RESTORE, SERVE, CHECK = "block to restore", "block for a peer", "block to check"
reads_at_once = 64
asked_at_once = 32


# What a restore wants


def read_wanted_blocks(core: Core) -> None:
    """Read the next blocks of a checkpoint that is being restored, each once."""
    state = core.state
    if state.restore is None:
        return
    reading = {read.ref: None for read in state.reads.values() if read.why == RESTORE}
    for ref in state.restore.wanted(reads_at_once):
        if ref not in reading and ref not in state.blocks_faulty:
            core.read_block(PendingRead(RESTORE, ref=ref))


def on_block_read(core: Core, why: PendingRead, data: bytes | None) -> None:
    """One of ours is here, or damaged."""
    state, ref = core.state, why.ref
    assert ref is not None
    if state.restore is not None and data is not None and state.restore.give(ref, data):
        return
    if state.restore is not None:
        _lost(core, ref)


def on_block_checked(core: Core, why: PendingRead, data: bytes | None) -> None:
    """The scrubber has read a block of the checkpoint."""
    assert why.ref is not None
    if data is None or decode_block(data, why.ref) is None:
        _lost(core, why.ref)


def _lost(core: Core, ref: BlockRef) -> None:
    core.note("block_corrupt", f"block {ref.index}")
    if core.is_solo:
        core.state.status = Status.REFUSED
        core.state.refusal = (
            f"block {ref.index} of the checkpoint is damaged, and there is no other replica"
        )
        return
    core.state.blocks_faulty[ref] = None


def request_blocks(core: Core) -> None:
    """Ask a peer for what is damaged or missing."""
    faulty = core.state.blocks_faulty
    if faulty:
        refs = tuple(list(faulty)[:asked_at_once])
        message = RequestBlocks(core.config.cluster, core.own, core.state.view, refs)
        core.send(core.next_peer(), message)


# Serving


def on_request_blocks(core: Core, message: RequestBlocks) -> None:
    for ref in message.refs[:asked_at_once]:
        if 0 <= ref.index < core.config.blocks_max:
            core.read_block(PendingRead(SERVE, ref=ref, asker=message.replica))


def on_block_to_serve(core: Core, why: PendingRead, data: bytes | None) -> None:
    """Send it if it is what was asked for; else say nothing."""
    assert why.ref is not None
    assert why.asker is not None
    if data is not None and decode_block(data, why.ref) is not None:
        view, own = core.state.view, core.own
        core.send(ReplicaIndex(why.asker), Block(core.config.cluster, own, view, why.ref, data))


def on_block(core: Core, message: Block) -> None:
    """A peer has sent what we lack: write it where it belongs."""
    state, ref = core.state, message.ref
    if ref not in state.blocks_faulty:
        core.drop("block_not_wanted")
        return
    if len(message.data) > core.config.block_bytes or decode_block(message.data, ref) is None:
        core.drop("block_checksum")
        return
    del state.blocks_faulty[ref]
    state.moved_monotonic_ns = core.now.monotonic_ns
    core.note("block_repaired", f"block {ref.index}")
    offset = block_offset(ref.index, core.config.block_bytes)
    state.block_writes[core.write(GRID, offset, message.data)] = ref
    if state.restore is not None:
        state.restore.give(ref, message.data)
        request_more(core)


def request_more(core: Core) -> None:
    """Do not wait for the timer while blocks keep coming."""
    if core.state.blocks_faulty and len(core.state.blocks_faulty) % asked_at_once == 0:
        request_blocks(core)
