"""A home shard commits with the votes that participants have given, and with no others."""

from __future__ import annotations

import pytest

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Message
from motet.core.shardlog.messages import BecomeLeaderRequest, FenceRequest
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.messages import (
    CommitTransaction,
    DataRefused,
    PrepareTransaction,
    TransactionEnded,
    TransactionPrepared,
)
from motet.core.streams.node import DataNode
from motet.core.streams.votes import Vote, is_genuine, seal_of
from motet.ids import Address, Epoch, LogName, NodeId, RequestId, ShardName, TransactionId
from motet.testing.workbench import Workbench

CLIENT, OPERATOR = Address("client"), Address("operator")
HOME, OTHER = ShardName("home"), ShardName("other")
NAME, ASKED = TransactionId("t1"), Clock(1, 0)


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
            self._say(OPERATOR, FenceRequest(LogName(shard), Epoch(1), life, True))
            self._say(OPERATOR, BecomeLeaderRequest(LogName(shard), Epoch(1), 1, ()))

    def _say(self, sender: Address, message: Message) -> None:
        self.bench.receive("n1", sender, message)
        self.bench.settle()

    def ask(self, message: Message) -> Message:
        self._say(CLIENT, message)
        while not self.bench.received.get(CLIENT):  # a participant may have to be told
            self.bench.advance(50)
            self.bench.settle()
        return self.bench.received[CLIENT].pop()

    def prepare(self, shard: ShardName, request: int) -> Vote:
        others = (OTHER,)
        message = PrepareTransaction(
            RequestId(request), ZERO, shard, branch(request), (), HOME, others
        )
        vote = self.ask(message)
        assert isinstance(vote, TransactionPrepared)
        return Vote(vote.clock, vote.seal)

    def commit(self, *votes: Vote, fixed: Clock | None = None) -> Message:
        return self.ask(
            CommitTransaction(RequestId(9), ZERO, HOME, branch(0), (), (OTHER,), votes, fixed)
        )


def branch(index: int) -> Branch:
    change = RowChange(index, b"k%d" % index, "insert", b"1", None)
    return Branch(NAME, Clock(1, 0), ASKED, 2, (change,))


def refusal(answer: Message) -> str:
    assert isinstance(answer, DataRefused)
    assert answer.code == "BAD_INPUT"
    return answer.what


def test_a_vote_is_taken_as_it_was_given_and_not_with_another_clock() -> None:
    pair = Pair()
    vote = pair.prepare(OTHER, 1)
    for clock in (Clock(vote.clock.logical - 1, 0), Clock(vote.clock.logical, 9), ZERO):
        refused = pair.commit(Vote(clock, vote.seal))
        assert f"other has not voted to commit t1 at {clock}" in refusal(refused)
    ended = pair.commit(vote)
    assert isinstance(ended, TransactionEnded)
    assert ended.clock is not None
    assert ended.clock > vote.clock
    again = pair.commit(Vote(ZERO, b""))
    assert again == ended, "what is decided is answered, with whatever votes"


def test_there_is_a_vote_for_each_participant() -> None:
    pair = Pair()
    vote = pair.prepare(OTHER, 1)
    assert "with 0 votes of 1 participants" in refusal(pair.commit())
    assert "with 2 votes of 1 participants" in refusal(pair.commit(vote, vote))


@pytest.mark.parametrize("is_below", [True, False])
def test_a_fixed_clock_is_not_below_a_vote(is_below: bool) -> None:
    pair = Pair()
    of_home = pair.prepare(HOME, 0)
    of_other = pair.prepare(OTHER, 1)
    assert of_other.clock > of_home.clock
    answer = pair.commit(of_other, fixed=of_home.clock if is_below else of_other.clock)
    if is_below:
        assert f"{of_home.clock} is below a prepare" in refusal(answer)
    else:
        assert isinstance(answer, TransactionEnded)
        assert answer.clock == of_other.clock


def test_a_seal_is_for_one_key_one_transaction_one_participant_one_home_and_one_clock() -> None:
    clock = Clock(7, 1)
    vote = Vote(clock, seal_of(b"key", NAME, ASKED, OTHER, HOME, clock))
    assert is_genuine(b"key", vote, NAME, ASKED, OTHER, HOME)
    assert not is_genuine(b"", vote, NAME, ASKED, OTHER, HOME)
    assert not is_genuine(b"key", vote, TransactionId("t2"), ASKED, OTHER, HOME)
    assert not is_genuine(b"key", vote, NAME, Clock(2, 0), OTHER, HOME)
    assert not is_genuine(b"key", vote, NAME, ASKED, HOME, HOME)
    assert not is_genuine(b"key", vote, NAME, ASKED, OTHER, OTHER)
    assert not is_genuine(b"key", Vote(Clock(7, 2), vote.seal), NAME, ASKED, OTHER, HOME)
    assert not is_genuine(b"key", Vote(clock, vote.seal[:-1]), NAME, ASKED, OTHER, HOME)
