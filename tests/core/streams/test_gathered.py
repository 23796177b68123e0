"""Requests that come in one turn are put into the log together, and come to the same as one by one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from motet.core.clock.hlc import ZERO
from motet.core.machine import (
    NS_PER_MS,
    DiskChange,
    Effect,
    Event,
    Message,
    Now,
    Preallocate,
    Read,
    ReadBack,
    Received,
    Remove,
    Replace,
    Send,
    SetTimer,
    Started,
    Truncate,
    Write,
    Written,
)
from motet.core.shardlog.entry import EntryKind
from motet.core.shardlog.messages import BecomeLeaderRequest, FenceRequest
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.entries import unbatched
from motet.core.streams.messages import CommitTransaction, DataRefused, SeenKey, TransactionEnded
from motet.core.streams.node import DataNode
from motet.core.streams.shard import machine_of
from motet.ids import Address, Epoch, LogName, NodeId, RequestId, ShardName, TransactionId

OPERATOR, CLIENT = Address("operator"), Address("client")
SHARD = LogName(ShardName("s.0"))
NOW = Now(0, 1_000 * NS_PER_MS)
KEYS = (b"a", b"b", b"c")


class Lone:
    """A data node that leads a shard by itself; the disk does everything when it is asked to."""

    def __init__(self) -> None:
        self.node = self.made()
        self.changes: list[DiskChange] = []
        self.reads: list[Read] = []
        self.answers: dict[int, Message] = {}
        self.step(Started(NOW, nonce=7))
        self.finish()
        fence = FenceRequest(SHARD, Epoch(1), self.node.shards.incarnation, True)
        for message in (fence, BecomeLeaderRequest(SHARD, Epoch(1), 1, ())):
            self.step(Received(NOW, OPERATOR, message))
            self.finish()

    def made(self) -> DataNode:
        return DataNode(NodeId("n1"))

    def step(self, event: Event) -> None:
        for effect in self.node.step(event):
            self._perform(effect)
        assert self.node.invariants() == []

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Write() | Replace() | Truncate() | Preallocate() | Remove():
                self.changes.append(effect)
            case Read():
                self.reads.append(effect)
            case Send(to=to, message=message) if to == CLIENT:
                request = getattr(message, "request", None)
                assert isinstance(request, int)
                assert request not in self.answers
                self.answers[request] = message
            case SetTimer() | Send():
                pass

    def finish(self) -> None:
        while self.changes or self.reads:
            if self.reads:
                self.step(ReadBack(NOW, self.reads.pop(0).id, b""))
            else:
                self.step(Written(NOW, self.changes.pop(0).id))

    @property
    def log_writes(self) -> int:
        return sum(isinstance(each, Write) for each in self.changes)


def commits(shapes: Sequence[tuple[int, int | None]]) -> list[CommitTransaction]:
    """Each changes a key, and may have read one that it takes for never changed."""
    found = []
    for number, (changed, read) in enumerate(shapes):
        change = RowChange(0, KEYS[changed], "update", b"%d" % number, None)
        branch = Branch(TransactionId(f"t{number}"), ZERO, ZERO, 1, (change,))
        reads = () if read is None else (SeenKey(KEYS[read], None),)
        found.append(CommitTransaction(RequestId(number), ZERO, SHARD, branch, reads, (), (), None))
    return found


def test_what_comes_in_one_turn_is_one_write() -> None:
    lone = Lone()
    first, *messages = commits([(0, None), (0, None), (1, None), (2, 2)])
    lone.step(Received(NOW, CLIENT, first))
    lone.finish()  # the clock has its bound
    for message in messages:
        lone.step(Received(NOW, CLIENT, message, is_followed=message is not messages[-1]))
        if message is not messages[-1]:
            assert not lone.changes, "the others are waited for"
    assert lone.log_writes == 1
    (head,) = lone.node.shards.replicas[SHARD].core.state.log.tail[-1:]
    assert head.kind == EntryKind.BATCH
    assert len(unbatched(head)) == 3
    lone.finish()
    assert [type(answer) for answer in lone.answers.values()] == [TransactionEnded] * 4
    assert machine_of(lone.node.shards.replicas[SHARD]).state.next_offset == 4


@given(
    st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 2)), min_size=1, max_size=8),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
@settings(deadline=None, max_examples=60)
def test_everybody_is_answered_and_conflicts_are_found(
    shapes: list[tuple[int, int | None]], followed: list[bool]
) -> None:
    """Whatever comes together: one who has read a key that was changed before it is refused."""
    lone = Lone()
    messages = commits(shapes)
    for number, message in enumerate(messages):
        is_last = number == len(messages) - 1
        lone.step(Received(NOW, CLIENT, message, is_followed=followed[number] and not is_last))
    lone.finish()
    assert len(lone.answers) == len(messages)
    ended = {
        number: answer.clock
        for number, answer in lone.answers.items()
        if isinstance(answer, TransactionEnded) and answer.clock is not None
    }
    changed: set[int] = set()
    for number in sorted(ended, key=lambda each: ended[each]):
        key, read = shapes[number]
        assert read not in changed, "it was not so any more"
        changed.add(key)
    assert all(shapes[number][1] in changed for number in lone.answers if number not in ended)
    replica = lone.node.shards.replicas[SHARD]
    assert machine_of(replica).state.next_offset == len(ended)


def test_a_leader_that_is_deposed_waits_for_nothing_of_its_batch() -> None:
    lone = Lone()
    messages = commits([(0, None), (1, None), (2, 2)])
    for message in messages:
        lone.step(Received(NOW, CLIENT, message, is_followed=message is not messages[-1]))
    lone.step(Written(NOW, lone.changes.pop(0).id))  # the clock has its bound, and all go as one
    ours = lone.node.state.requests.of_shards[SHARD]
    assert len(ours.in_flight_keys) == 3
    fence = FenceRequest(SHARD, Epoch(2), lone.node.shards.incarnation, True)
    lone.step(Received(NOW, OPERATOR, fence))
    assert (
        ours.in_flight,
        ours.in_flight_transactions,
        ours.in_flight_keys,
        ours.in_flight_prepares,
    ) == ([], {}, {}, 0)
    assert [type(answer) for answer in lone.answers.values()] == [DataRefused] * 3
