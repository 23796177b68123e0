"""What is true of a replica between any two steps.

V1  Nothing is executed that is not committed.
V2  A checkpoint is of what has been executed.
V3  The log is of the view, or of one before it.
V4  No more prepares are in flight than the pipeline has room for.
V5  The superblock promises nothing that the replica does not know of.
"""

from __future__ import annotations

from motet.core.machine import Violation
from motet.core.vsr.context import Core
from motet.core.vsr.state import Status


def invariants(core: Core) -> list[Violation]:
    """Those that do not hold; the journal has some of its own."""
    state = core.state
    if not state.is_started or state.status is Status.REFUSED:
        return []
    found = []
    if state.commit_min > state.commit_max:
        found.append(Violation("V1", f"executed {state.commit_min} of {state.commit_max}"))
    if core.checkpoint_op > state.commit_min:
        found.append(Violation("V2", f"checkpoint {core.checkpoint_op} is ahead"))
    if state.log_view > state.view:
        found.append(Violation("V3", f"log of view {state.log_view} in view {state.view}"))
    if core.is_primary and len(state.pipeline) > core.config.pipeline_max:
        found.append(Violation("V4", f"{len(state.pipeline)} prepares in flight"))
    superblock = state.superblock
    assert superblock is not None
    if superblock.view > state.view or superblock.log_view > state.log_view:
        found.append(Violation("V5", "the superblock is ahead of its replica"))
    return found + state.journal.invariants(state.op)
