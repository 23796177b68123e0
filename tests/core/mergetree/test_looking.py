"""A look at the disk takes a while: what happens meanwhile is not in what it says."""

from __future__ import annotations

import pytest

from motet.core.mergetree import activation
from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.context import Core, NodeContext
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import InsertBlock, PartArrived, PartBroken
from motet.core.mergetree.replica import TableReplica
from motet.core.mergetree.state import Insert, InsertStep, OwnPart, Phase
from motet.core.mergetree.work import NOBODY, LookAtDisk, Looked
from motet.ids import Address, NodeId, PartId, RequestId, SessionId, TableId, WorkId

N1, KEY = NodeId("n1"), (TableId("t"), 0)
PART = PartHeader(PartId("a"), "p", 1, 100, "hash of a")


@pytest.fixture
def replica() -> TableReplica:
    return TableReplica(NodeContext(N1), KEY, MergeTreeConfig())


def look(core: Core) -> None:
    activation.on_looked(core, Looked((), ()))


def test_bytes_that_arrive_during_a_look_are_within_reach(replica: TableReplica) -> None:
    replica.on_request(Address("n1"), PartArrived(*KEY, PART, N1))
    look(replica.core)
    assert PART.id in replica.core.state.aside


def test_a_part_that_is_kept_during_a_look_is_stored(replica: TableReplica) -> None:
    core = replica.core
    message = InsertBlock(*KEY, RequestId(1), PART, 1, "token", "content")
    core.state.inserts[1] = Insert(Address("c"), message, 0, InsertStep.READING)
    core.state.parts[PART.id] = OwnPart(PART, is_stored=True)
    look(core)
    assert core.state.parts[PART.id].is_stored


def test_a_look_of_a_former_activation_is_ignored(replica: TableReplica) -> None:
    core = replica.core
    core.state.phase = Phase.COMPARING
    core.state.look = core.work(LookAtDisk(*KEY), NOBODY)
    activation.end(core)
    core.node.take()
    replica.on_work(WorkId(1), Looked((PART,), ()), None)
    assert not core.state.parts
    assert not core.node.take(), "nothing is read that the next activation has to read"


def test_an_activation_that_begins_anew_waits_for_nothing_of_the_last_one(
    replica: TableReplica,
) -> None:
    core = replica.core
    core.state.is_read, core.node.memory.session = True, SessionId(7)
    core.node.memory.incarnation = "a1b2"
    for _ in range(2):
        core.state.phase = Phase.WAITING
        activation.begin(core)
    assert [*core.state.calls] == [2]


def test_a_part_that_is_found_damaged_during_a_look_is_not_taken_for_whole(
    replica: TableReplica,
) -> None:
    """F1: what the look says may have been read before."""
    replica.on_request(Address("n1"), PartBroken(*KEY, PART.id))
    activation.on_looked(replica.core, Looked((PART,), ()))
    assert PART.id not in replica.core.state.parts
    assert PART.id in replica.core.state.damaged
