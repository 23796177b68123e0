"""What a node does for one shard costs the same however many others it has: calls are counted, not time."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from motet.core.clock.hlc import ZERO
from motet.core.clock.node_clock import BOUND_FILE
from motet.core.machine import (
    NS_PER_MS,
    ClientLeft,
    DiskChange,
    Effect,
    Event,
    Fired,
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
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import (
    AddEntryRequest,
    AddEntryResponse,
    BecomeLeaderRequest,
    FenceRequest,
)
from motet.core.shardlog.shards import BEAT
from motet.core.streams import many
from motet.core.streams.entries import Chunk
from motet.core.streams.many import Together
from motet.core.streams.messages import (
    AppendRecords,
    AskMany,
    CloseShard,
    DataRefused,
    DescribeFeed,
    ManyAnswered,
    ReadShardFeed,
    ShardClosed,
    ShardFeed,
)
from motet.core.streams.node import CUT_TIMER, MANY_TIMER, SWEEP_TIMER, DataNode
from motet.errors import BadInput, NodeError, NoSuchShard
from motet.errors.shards import NotLeader
from motet.format.record_block import encode_block
from motet.ids import Address, Epoch, LogName, NodeId, Offset, RequestId, ShardName

OPERATOR, CLIENT = Address("operator"), Address("client")
FOLLOWER = NodeId("n2")
FEW, MANY = 5, 100


def shard(number: int) -> ShardName:
    return ShardName(f"s.{number}")


class Leader:
    """A data node that leads shards of two nodes; its follower answers, and its disk works, when told to."""

    def __init__(self, shards: int) -> None:
        self.node = DataNode(NodeId("n1"))
        self.ms = 1_000
        self.requests = 0
        self.changes: list[DiskChange] = []
        self.reads: list[Read] = []
        self.unanswered: list[AddEntryRequest] = []
        self.answers: list[Message] = []
        #: messages to the follower
        self.pushed = 0
        self.is_many_due = False
        self.step(Started(self.now, nonce=7))
        self.settle()
        for number in range(shards):
            name = shard(number)
            self.receive(OPERATOR, FenceRequest(LogName(name), Epoch(1), 7, True))
            self.settle()
            followers = ((FOLLOWER, EntryId(Epoch(0), Offset(0))),)
            self.receive(OPERATOR, BecomeLeaderRequest(LogName(name), Epoch(1), 2, followers))
            self.settle()
            replica = self.node.shards.replica(LogName(name))
            assert replica is not None
            assert replica.is_serving

    @property
    def now(self) -> Now:
        return Now(self.ms * NS_PER_MS, self.ms * NS_PER_MS)

    def step(self, event: Event) -> None:
        for effect in self.node.step(event):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Write() | Replace() | Truncate() | Preallocate() | Remove():
                self.changes.append(effect)
            case Read():
                self.reads.append(effect)
            case Send(to=to, message=AddEntryRequest() as message):
                assert to == Address(FOLLOWER)
                self.pushed += 1
                self.unanswered.append(message)
            case Send(to=to, message=message) if to == CLIENT:
                self.answers.append(message)
            case SetTimer(timer=timer) if timer == MANY_TIMER:
                self.is_many_due = True
            case _:
                pass

    def receive(self, sender: Address, message: Message) -> None:
        self.step(Received(self.now, sender, message))

    def settle(self) -> None:
        """The disk and the follower do all that they were asked to."""
        while self.changes or self.reads or self.unanswered:
            if self.reads:
                self.step(ReadBack(self.now, self.reads.pop(0).id, b""))
            elif self.changes:
                self.step(Written(self.now, self.changes.pop(0).id))
            else:
                self.answer(self.unanswered.pop(0))

    def ask_queued(self) -> None:
        """One turn of those who ask many questions."""
        assert self.is_many_due
        self.is_many_due = False
        self.step(Fired(self.now, MANY_TIMER))

    def write_bound(self) -> None:
        """The clock of the node can go on."""
        for change in [each for each in self.changes if each.file == BOUND_FILE]:
            self.changes.remove(change)
            self.step(Written(self.now, change.id))

    def answer(self, asked: AddEntryRequest) -> None:
        head = asked.entries[-1].id if asked.entries else asked.previous
        response = AddEntryResponse(asked.shard, asked.epoch, head, asked.round, ZERO)
        self.receive(Address(FOLLOWER), response)

    def close_shard(self, number: int) -> None:
        self.requests += 1
        self.receive(CLIENT, CloseShard(RequestId(self.requests), ZERO, shard(number)))

    def describe(self, number: int) -> None:
        self.requests += 1
        self.receive(CLIENT, DescribeFeed(RequestId(self.requests), ZERO, shard(number)))

    def append(self, number: int) -> None:
        self.requests += 1
        block = encode_block([b"k"], [b"v"])
        message = AppendRecords(
            RequestId(self.requests), ZERO, shard(number), (Chunk(1, None, block),)
        )
        self.receive(CLIENT, message)
        self.step(Fired(self.now, CUT_TIMER))

    def pass_time(self, ms: int) -> None:
        """Timers fire, and everything they lead to is done."""
        for _ in range(ms // 100):
            self.ms += 100
            self.step(Fired(self.now, BEAT))
            self.step(Fired(self.now, SWEEP_TIMER))
            self.settle()


def calls(leader: Leader, event: Event) -> int:
    """How many functions a step calls."""
    count = 0

    def seen(_frame: FrameType, what: str, _argument: object) -> None:
        nonlocal count
        count += what == "call"

    effects: list[Effect] = []
    sys.setprofile(seen)
    try:
        effects += leader.node.step(event)
    finally:
        sys.setprofile(None)
    for effect in effects:
        leader._perform(effect)
    return count


def busy(shards: int) -> Leader:
    """A client waits in every shard: for a closed clock, for a page, and for an append."""
    leader = Leader(shards)
    leader.ms += 1_000
    for number in range(shards):
        leader.describe(number)
        leader.append(number)
        leader.close_shard(number)
        leader.write_bound()
    return leader


def costs_of_a_message(shards: int) -> list[int]:
    leader = busy(shards)
    pushed = leader.unanswered[-1]
    write = next(each.id for each in leader.changes if each.file != BOUND_FILE)
    head = pushed.entries[-1].id if pushed.entries else pushed.previous
    response = AddEntryResponse(pushed.shard, pushed.epoch, head, pushed.round, ZERO)
    question = DescribeFeed(RequestId(90_000), ZERO, shard(0))
    close = CloseShard(RequestId(90_001), ZERO, shard(1))
    return [
        calls(leader, Received(leader.now, CLIENT, question)),
        calls(leader, Received(leader.now, CLIENT, close)),
        calls(leader, Received(leader.now, Address(FOLLOWER), response)),
        calls(leader, Written(leader.now, write)),
    ]


def test_a_message_costs_the_same_however_many_shards_have_something_waiting() -> None:
    few, many = costs_of_a_message(FEW), costs_of_a_message(MANY)
    # A call or two are the interpreter's; with a look at every shard it was fifteen times as much.
    assert all(more < 1.2 * less for less, more in zip(few, many, strict=True))


def test_everybody_is_answered_when_the_followers_are() -> None:
    leader = busy(MANY)
    assert not leader.answers
    leader.settle()
    leader.pass_time(500)
    assert len(leader.answers) == 3 * MANY
    assert sum(isinstance(answer, ShardClosed) for answer in leader.answers) == MANY


@pytest.mark.parametrize("timer", [BEAT, SWEEP_TIMER])
def test_shards_at_rest_cost_next_to_nothing(timer: str) -> None:
    leader = busy(MANY)
    leader.settle()
    leader.pass_time(3_000)
    leader.pushed = 0
    leader.pass_time(leader.node.config.idle_beat_ms)
    assert leader.pushed == MANY, "a follower hears of each shard once in a while"
    leader.ms += 100
    at_rest = calls(leader, Fired(leader.now, BEAT if timer == BEAT else SWEEP_TIMER))
    each = costs_of_a_message(1)[0]
    assert at_rest < each * MANY / 5


def ask_many(leader: Leader, *, numbers: range) -> AskMany:
    leader.requests += 1
    asked = tuple(
        CloseShard(RequestId(place), ZERO, shard(number)) for place, number in enumerate(numbers)
    )
    message = AskMany(RequestId(leader.requests), ZERO, asked)
    leader.receive(CLIENT, message)
    return message


def test_many_questions_are_one_message_and_one_answer() -> None:
    leader = Leader(FEW)
    leader.ms += 1_000
    ask_many(leader, numbers=range(FEW + 1))
    leader.ask_queued()
    assert leader.answers == [], "the followers have not answered"
    leader.settle()
    (answer,) = leader.answers
    assert isinstance(answer, ManyAnswered)
    *closed, refused = answer.answers
    assert [type(each) for each in closed] == [ShardClosed] * FEW
    assert isinstance(refused, DataRefused)
    assert refused.code == NoSuchShard.code
    assert leader.node.state.together == Together(next_number=2)


def test_a_turn_asks_some_of_many_questions_and_the_next_one_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(many, "asked_at_once_max", FEW)
    leader = Leader(2 * FEW)
    leader.ms += 1_000
    for _ in range(2):
        ask_many(leader, numbers=range(2 * FEW))
    asked_of: list[int] = []
    while leader.is_many_due:
        leader.ask_queued()
        leader.write_bound()
        requests = leader.node.state.requests.of_shards.values()
        asked_of.append(sum(len(ours.waiting) + len(ours.pending) for ours in requests))
        assert leader.node.waiting > 0
    assert asked_of == [FEW, 2 * FEW, 3 * FEW, 4 * FEW]
    leader.settle()
    assert [type(each) for each in leader.answers] == [ManyAnswered] * 2
    assert leader.node.waiting == 0


def test_a_message_that_is_repeated_while_it_is_under_way_is_worked_on_once() -> None:
    leader = Leader(FEW)
    leader.ms += 1_000
    message = ask_many(leader, numbers=range(FEW))
    leader.receive(CLIENT, message)  # from the queue
    leader.ask_queued()
    leader.receive(CLIENT, message)  # while the followers are waited for
    assert not leader.is_many_due
    requests = leader.node.state.requests.of_shards.values()
    assert sum(len(ours.waiting) + len(ours.pending) for ours in requests) == FEW
    leader.settle()
    assert [type(answer) for answer in leader.answers] == [ManyAnswered]
    leader.receive(CLIENT, message)  # the answer may have been lost
    leader.ask_queued()
    leader.settle()
    assert len(leader.answers) == 2


def test_another_message_of_the_same_number_is_refused() -> None:
    leader = Leader(FEW)
    leader.ms += 1_000
    first = ask_many(leader, numbers=range(FEW))
    leader.receive(CLIENT, AskMany(first.request, ZERO, first.requests[:2]))
    (answer,) = leader.answers
    assert isinstance(answer, DataRefused)
    assert answer.code == BadInput.code


def test_what_is_too_much_for_one_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(FEW)
    for number in range(FEW):
        leader.append(number)
        leader.settle()
    leader.ms += 1_000
    for number in range(FEW):
        leader.close_shard(number)
    leader.settle()
    leader.answers = []

    def read(place: int) -> ReadShardFeed:
        return ReadShardFeed(RequestId(place), ZERO, shard(place), ZERO, None, 10, 1_000)

    def told() -> list[type]:
        leader.receive(CLIENT, AskMany(RequestId(1), ZERO, tuple(map(read, range(FEW)))))
        leader.ask_queued()
        leader.settle()
        answer = leader.answers.pop()
        assert isinstance(answer, ManyAnswered)
        return [type(each) for each in answer.answers]

    assert told() == [ShardFeed] * FEW
    monkeypatch.setattr(many, "asked_together_bytes_max", 40)
    assert told() == [ShardFeed, *[DataRefused] * (FEW - 1)]


@pytest.mark.parametrize("is_bad", ["none", "numbered"])
def test_questions_that_cannot_be_together_are_refused(is_bad: str) -> None:
    leader = Leader(1)
    question = CloseShard(RequestId(3), ZERO, shard(0))
    asked = () if is_bad == "none" else (question,)
    leader.receive(CLIENT, AskMany(RequestId(1), ZERO, asked))
    (answer,) = leader.answers
    assert isinstance(answer, DataRefused)
    assert answer.code == BadInput.code


def test_what_a_client_asked_goes_with_its_connection() -> None:
    leader = busy(FEW)
    ask_many(leader, numbers=range(FEW))
    leader.ask_queued()
    ask_many(leader, numbers=range(FEW))
    leader.step(ClientLeft(leader.now, CLIENT))
    state = leader.node.state
    assert not state.together.queue
    assert not state.readings.under_way
    assert not state.readings.unconfirmed
    assert not state.together.asked
    assert not any(ours.waiting for ours in state.requests.of_shards.values())
    assert not any(of_shard.gathered for of_shard in state.appends.values())
    leader.settle()
    leader.pass_time(500)
    assert not state.requests.busy
    assert not state.busy, "what was in the logs is done"


def test_a_request_that_waits_too_long_is_refused() -> None:
    leader = busy(FEW)
    leader.changes.clear()
    leader.unanswered.clear()  # no disk and no follower says a word from now on
    assert len(leader.node.state.readings.under_way) == FEW
    leader.ms += leader.node.transactions.wait_ms
    leader.step(Fired(leader.now, SWEEP_TIMER))
    refused = [each for each in leader.answers if isinstance(each, DataRefused)]
    codes = [each.code for each in refused]
    assert codes.count(NodeError.code) == FEW, "readers"
    assert codes.count(NotLeader.code) == FEW, "who asked how far a shard is closed"
    assert len(codes) == 2 * FEW
    assert not leader.node.state.readings.under_way
