"""The scrubber: reads what nobody asks for, slowly, so that damage is found while others have a copy."""

from __future__ import annotations

from motet.core.vsr.blocks import CHECK
from motet.core.vsr.context import Core
from motet.core.vsr.repair import check_prepare
from motet.core.vsr.state import PendingRead, Status
from motet.ids import Op, TimerName

SCRUB = TimerName("scrub")


def on_scrub_timer(core: Core) -> None:
    """Look at one prepare and one block."""
    core.timer(SCRUB, core.config.timeouts.scrub_ms, in_step=True)
    state = core.state
    if state.status is not Status.NORMAL or core.is_syncing or state.restore is not None:
        return
    state.scrubbed += 1
    span = max(state.commit_min - core.checkpoint_op, 1)
    op = Op(core.checkpoint_op + 1 + state.scrubbed % span)
    if op <= state.op:
        check_prepare(core, op)
    if state.checkpointing is None:
        _check_block(core)


def _check_block(core: Core) -> None:
    """The next block of the checkpoint: one of each chunk in turn, the next one in the next round."""
    state = core.state
    table = state.table
    if not table.root:
        return
    numbers = sorted(table.chunks)
    lap, place = divmod(state.scrubbed, len(numbers) + 1)
    refs = table.root if place == len(numbers) else table.refs_of(numbers[place])
    core.read_block(PendingRead(CHECK, ref=refs[lap % len(refs)]))
