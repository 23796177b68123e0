"""Blocks of a checkpoint: reading one's own, fetching what is damaged or missing from any peer.

A block is asked for by place and checksum, so it does not matter who answers. Whoever has it, at the same
place, sends it as it is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.context import GRID, Core
from motet.core.vsr.grid import block_offset, decode_block
from motet.core.vsr.messages import Block, RequestBlocks
from motet.core.vsr.state import PendingRead, Status
from motet.ids import ReplicaIndex

RESTORE, SERVE, CHECK = "block to restore", "block for a peer", "block to check"
reads_at_once = 512
"""Blocks that are being read at most, several of them with one read."""
asked_at_once = 32
run_blocks_max = 128
gap_blocks_max = 4
"""So many blocks that are not wanted are read along with those around them."""


# What a restore wants


def read_wanted_blocks(core: Core) -> None:
    """Read the next blocks of a checkpoint that is being restored, each once."""
    state = core.state
    restore = state.restore
    if restore is None or not restore.unread:
        return
    if not any(read.why == RESTORE for read in state.reads.values()):
        for run in _runs(restore.take_unread(reads_at_once)):
            _read_run(core, run)


def _runs(refs: Sequence[BlockRef]) -> Iterator[tuple[BlockRef, ...]]:
    """The same, those together that are near each other; they are in the order of their places."""
    run: list[BlockRef] = []
    for ref in refs:
        is_near = run and ref.index - run[-1].index <= 1 + gap_blocks_max
        if run and not (is_near and ref.index - run[0].index < run_blocks_max):
            yield tuple(run)
            run = []
        run.append(ref)
    if run:
        yield tuple(run)


def _read_run(core: Core, run: tuple[BlockRef, ...]) -> None:
    block_bytes = core.config.block_bytes
    size_bytes = (run[-1].index + 1 - run[0].index) * block_bytes
    why = PendingRead(RESTORE, refs=run)
    core.read(why, GRID, block_offset(run[0].index, block_bytes), size_bytes)


def on_blocks_read(core: Core, why: PendingRead, data: bytes | None) -> None:
    """Some of ours are here, or damaged. A read that failed is repeated block by block."""
    state, block_bytes = core.state, core.config.block_bytes
    if state.restore is None:
        return
    if data is None and len(why.refs) > 1:
        for ref in why.refs:
            _read_run(core, (ref,))
        return
    for ref in why.refs:
        start = block_offset(ref.index - why.refs[0].index, block_bytes)
        if data is None or not state.restore.give(ref, data[start : start + block_bytes]):
            _lost(core, ref)
        if state.status is Status.REFUSED:
            return


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
