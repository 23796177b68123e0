"""A look at the disk takes a while: what happens meanwhile is not in what it says."""

from __future__ import annotations

import pytest

from motet.core.mergetree import activation
from motet.core.mergetree.context import Core, NodeContext
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import InsertBlock, PartArrived
from motet.core.mergetree.replica import TableReplica
from motet.core.mergetree.state import Insert, InsertStep, MergeTreeConfig, OwnPart
from motet.core.mergetree.work import Looked
from motet.ids import Address, NodeId, PartId, RequestId, TableId

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
