"""Queued parts: what comes late does not turn one back, and one whose entry is not known joins its quorum."""

from __future__ import annotations

import pytest

from motet.core.mergetree import executing
from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.context import Core, NodeContext
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.queued import QueuedPart, Step
from motet.core.mergetree.state import Locate, OwnPart, ReadQuorum
from motet.core.metadata.messages import Unknown
from motet.ids import NodeId, PartId, RequestId, TableId, WorkId

PART = PartHeader(PartId("a"), "p", 1, 100, "hash of a")
UNKNOWN = Unknown(RequestId(1))


@pytest.fixture
def core() -> Core:
    core = Core(NodeContext(NodeId("n1")), (TableId("t"), 0), MergeTreeConfig())
    core.state.queue[PART.id] = QueuedPart(0, PART, Step.REGISTERING)
    core.state.parts[PART.id] = OwnPart(PART, is_stored=True)
    return core


def test_a_part_that_is_being_registered_goes_on(core: Core) -> None:
    executing.on_located(core, Locate(PART.id, ()), UNKNOWN)
    executing.on_quorum(core, ReadQuorum(PART.id), UNKNOWN)
    executing.on_not_stored(core, PART.id, WorkId(9), "cut")
    executing.on_stored(core, PART.id, WorkId(9))
    assert core.state.queue[PART.id].step is Step.REGISTERING
    assert core.state.queue[PART.id].tries == 0


def test_a_part_of_a_block_that_the_log_has_not_told_of_asks_for_its_quorum(core: Core) -> None:
    """E4: the queue names it, and the own file begins anew: the quorum may be open."""
    core.state.queue[PART.id].step = Step.STORED
    core.state.todo[PART.id] = None
    executing.advance(core)
    assert list(core.state.calls.values()) == [ReadQuorum(PART.id)]
