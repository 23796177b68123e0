"""A home shard refuses a commit that is below a prepare which its own node knows of."""

from __future__ import annotations

import pytest

from motet.core.clock.hlc import ZERO, Clock
from motet.core.datanode.messages import DataRefused
from motet.core.datanode.node import DataNode
from motet.core.machine import Message
from motet.core.shardlog.messages import BecomeLeaderRequest, FenceRequest
from motet.core.transaction.entries import Part, PartChange
from motet.core.transaction.messages import (
    CommitTransaction,
    PrepareTransaction,
    TransactionEnded,
    TransactionPrepared,
)
from motet.ids import Address, Epoch, NodeId, RequestId, ShardName, TransactionId
from motet.testing.workbench import Workbench

CLIENT, OPERATOR = Address("client"), Address("operator")
HOME, OTHER = ShardName("home"), ShardName("other")
NAME = TransactionId("t1")


class Pair:
    """One node that leads two shards."""

    def __init__(self) -> None:
        self.bench = Workbench(show=())
        self.bench.add("n1", lambda: DataNode(NodeId("n1")), wall_ms=1_000)
        self.bench.start("n1")
        machine = self.bench.node("n1").running()
        assert isinstance(machine, DataNode)
        for shard in (HOME, OTHER):
            life = machine.shards.incarnation
            self._say(OPERATOR, FenceRequest(shard, Epoch(1), life, True))
            self._say(OPERATOR, BecomeLeaderRequest(shard, Epoch(1), 1, ()))

    def _say(self, sender: Address, message: Message) -> None:
        self.bench.receive("n1", sender, message)
        self.bench.settle()

    def ask(self, message: Message) -> Message:
        self._say(CLIENT, message)
        while not self.bench.received.get(CLIENT):  # a participant may have to be told
            self.bench.advance(50)
            self.bench.settle()
        return self.bench.received[CLIENT].pop()

    def prepare(self, shard: ShardName, request: int) -> Clock:
        others = (OTHER,)
        message = PrepareTransaction(
            RequestId(request), ZERO, shard, part(request), (), HOME, others
        )
        vote = self.ask(message)
        assert isinstance(vote, TransactionPrepared)
        return vote.clock

    def commit(self, floor: Clock, fixed: Clock | None = None) -> Message:
        return self.ask(
            CommitTransaction(RequestId(9), ZERO, HOME, part(0), (), (OTHER,), floor, fixed)
        )


def part(index: int) -> Part:
    change = PartChange(index, b"k%d" % index, "insert", b"1", None)
    return Part(NAME, Clock(1, 0), Clock(1, 0), 2, (change,))


def below(clock: Clock) -> Clock:
    return Clock(clock.logical - 1, 0)


def test_a_floor_below_a_prepare_is_refused_and_the_right_one_taken() -> None:
    pair = Pair()
    prepared = pair.prepare(OTHER, 1)
    refused = pair.commit(below(prepared))
    assert isinstance(refused, DataRefused)
    assert refused.code == "BAD_INPUT"
    assert "below the prepare of t1 in other" in refused.what
    ended = pair.commit(prepared)
    assert isinstance(ended, TransactionEnded)
    assert ended.clock is not None
    assert ended.clock > prepared


@pytest.mark.parametrize("is_below", [True, False])
def test_so_is_a_fixed_clock(is_below: bool) -> None:
    pair = Pair()
    of_home = pair.prepare(HOME, 0)
    of_other = pair.prepare(OTHER, 1)
    assert of_other > of_home
    answer = pair.commit(of_home, of_home if is_below else of_other)
    if is_below:
        assert isinstance(answer, DataRefused)
        assert answer.code == "BAD_INPUT"
    else:
        assert isinstance(answer, TransactionEnded)
        assert answer.clock == of_other
