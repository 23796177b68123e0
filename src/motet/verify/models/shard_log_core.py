"""The shard log as it is built: three data nodes are the core itself, under an operator as in the model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from motet.core.render import render
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import (
    AddFollowerRequest,
    BecomeLeaderRequest,
    BecomeLeaderResponse,
    FenceRequest,
    FenceResponse,
    ShardMessage,
)
from motet.ids import Address, Epoch, NodeId, Offset
from motet.verify.model import (
    Model,
    Record,
    Variant,
    action,
    chosen,
    invariant,
    numbered,
    parameter,
    require,
)
from motet.verify.models.core_node import SHARD, CoreNode, Outgoing
from motet.verify.models.merge_tree import Natural

OPERATOR = Address("op")
Head = tuple[Natural, Natural]


class Operator(Record, frozen=True):
    """What the operator is doing in its epoch: the heads of those that are fenced, and who leads."""

    epoch: Natural = 0
    phase: Literal["idle", "fencing", "telling", "steady"] = "idle"
    fenced: frozenset[tuple[Natural, Natural, Natural]] = frozenset()
    leader: Natural | None = None
    #: those of the majority that chose it; who is fenced later is added
    chosen_by: frozenset[Natural] = frozenset()


class State(Record, frozen=True):
    """Nodes and messages by their numbers in the model's tables, which grow as it is explored."""

    node: tuple[Natural, ...]
    #: on their way, each as often as it was sent
    messages: tuple[Natural, ...] = ()
    operator: Operator = Operator()
    appended: Natural = 0


class Parcel:
    """A message with its way; there is one of each kind, known by its number."""

    __slots__ = ("message", "number", "sender", "to")

    def __init__(self, number: int, sender: Address, to: Address, message: ShardMessage) -> None:
        self.number, self.sender, self.to, self.message = number, sender, to, message

    def __str__(self) -> str:
        return f"{self.sender} -> {self.to} {render(self.message)}"


class Seen(NamedTuple):
    """What the properties ask of a node."""

    applied: tuple[tuple[int, int, bytes], ...]
    epoch: int
    head: int
    is_serving: bool
    broken: tuple[str, ...]


class ShardLogCore(Model[State]):
    """The core of the shard log itself, explored by clone: elections, late followers, truncation, writes.

    Messages arrive in any order and are not lost, disks are durable at once, and no time passes: what is only
    said again after a while is not said. The operator may start an election at any moment. A node is
    what its core and its files are, counters included, so states differ that a reader would call the same.
    """

    name = "shard-log-core"
    state_type = State
    may_end = True
    is_of_one_process = True
    nodes = parameter(3, least=1, most=5, what="data nodes, all of them in the ensemble")
    values = parameter(1, least=0, most=4, what="values that clients write")
    epochs = parameter(1, least=1, most=4, what="elections at most")
    Nodes = numbered("nodes", "n")
    Parcels = chosen(lambda model, s: [model.parcels[i] for i in dict.fromkeys(s.messages)])

    def prepare(self) -> None:
        #: nodes and messages by number, and the numbers of those that are known
        self.locals: list[CoreNode] = []
        self.seen: list[Seen] = []
        self.parcels: list[Parcel] = []
        self._numbers: dict[bytes, int] = {}
        self._parcel_numbers: dict[tuple[Address, Address, ShardMessage], int] = {}
        #: (node, what happens to it) -> what it is then, and what it sends
        self._steps: dict[tuple[int, object], tuple[int, tuple[int, ...]] | None] = {}

    def initial(self) -> Iterator[State]:
        numbers = []
        for n in range(self.nodes):
            node = CoreNode(self.name_of(n))
            node.start()
            numbers.append(self.number_of(node))
        yield State(tuple(numbers))

    def name_of(self, n: int) -> NodeId:
        """``n0``, ``n1`` …"""
        return NodeId(f"n{n}")

    # tables

    def number_of(self, node: CoreNode) -> int:
        """The number of a node as it is now."""
        key = node.fingerprint()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.locals)
            self.locals.append(node)
            self.seen.append(_seen(node))
        return number

    def parcel_number(self, sender: Address, to: Address, message: ShardMessage) -> int:
        """The number of a message with its way."""
        key = (sender, to, message)
        number = self._parcel_numbers.get(key)
        if number is None:
            number = self._parcel_numbers[key] = len(self.parcels)
            self.parcels.append(Parcel(number, sender, to, message))
        return number

    def stepped(self, s: State, n: int, what: object, out: tuple[int, ...] = ()) -> State | None:
        """The state after something has happened to a node: a parcel, or a value to append."""
        number = s.node[n]
        key = (number, what)
        if key not in self._steps:
            self._steps[key] = self._step(n, self.locals[number].clone(), what)
        found = self._steps[key]
        if found is None:
            return None
        after, sent = found
        messages = tuple(sorted((*out, *sent)))
        return s.but(node=(*s.node[:n], after, *s.node[n + 1 :]), messages=messages)

    def _step(self, n: int, node: CoreNode, what: object) -> tuple[int, tuple[int, ...]] | None:
        sent: list[Outgoing] | None
        if isinstance(what, Parcel):
            sent = node.hear(what.sender, what.message)
        else:
            sent = node.append(str(what).encode())
        if sent is None:
            return None
        own = Address(self.name_of(n))
        parcels = [
            self.parcel_number(own, to, message)
            for to, message in sent
            if isinstance(message, ShardMessage)
        ]
        return self.number_of(node), tuple(parcels)

    def taken(self, s: State, parcel: Parcel) -> tuple[int, ...]:
        """The messages without this one."""
        rest = list(s.messages)
        rest.remove(parcel.number)
        return tuple(rest)

    def told(self, messages: tuple[int, ...], requests: list[tuple[int, Any]]) -> tuple[int, ...]:
        """And what the operator says."""
        said = [
            self.parcel_number(OPERATOR, Address(self.name_of(n)), request)
            for n, request in requests
        ]
        return tuple(sorted((*messages, *said)))

    # actions

    @action
    def operator_starts_election(self, s: State) -> State:
        require(s.operator.epoch < self.epochs)
        epoch = s.operator.epoch + 1
        fence = FenceRequest(SHARD, Epoch(epoch), 1, founds=epoch == 1)
        messages = self.told(s.messages, [(n, fence) for n in range(self.nodes)])
        return s.but(operator=Operator(epoch, "fencing"), messages=messages)

    @action(n=Nodes)
    def write(self, s: State, n: int) -> State | None:
        require(s.appended < self.values)
        after = self.stepped(s, n, s.appended, s.messages)
        return None if after is None else after.but(appended=s.appended + 1)

    @action(parcel=Parcels)
    def deliver(self, s: State, parcel: Parcel) -> State | None:
        rest = self.taken(s, parcel)
        if parcel.to == OPERATOR:
            return self.answered(s.but(messages=rest), parcel)
        return self.stepped(s, int(parcel.to[1:]), parcel, rest)

    def answered(self, s: State, parcel: Parcel) -> State:
        """What the operator makes of an answer; what is not of its epoch is nothing to it."""
        operator, n = s.operator, int(parcel.sender[1:])
        match parcel.message:
            case FenceResponse(epoch=epoch, head_index=head) if epoch == operator.epoch:
                return self.fenced(s, n, (head.epoch, head.offset))
            case BecomeLeaderResponse(epoch=epoch) if epoch == operator.epoch:
                late = [
                    self.added(s, node, (e, o))
                    for node, e, o in sorted(operator.fenced)
                    if node not in operator.chosen_by
                ]
                steady = operator.but(phase="steady")
                return s.but(operator=steady, messages=self.told(s.messages, late))
        return s

    @property
    def majority(self) -> int:
        """Of the ensemble."""
        return self.nodes // 2 + 1

    def fenced(self, s: State, n: int, head: Head) -> State:
        """One more is fenced: the highest head of the first majority leads; who is late is added."""
        operator = s.operator
        if any(node == n for node, _, _ in operator.fenced):
            return s
        fenced = operator.fenced | {(n, *head)}
        if operator.phase != "fencing":
            late = [self.added(s, n, head)] if operator.phase == "steady" else []
            added = operator.but(fenced=fenced)
            return s.but(operator=added, messages=self.told(s.messages, late))
        if len(fenced) < self.majority:
            return s.but(operator=operator.but(fenced=fenced))
        leader = max(sorted(fenced), key=lambda each: (each[1], each[2]))[0]
        heads = tuple(
            (self.name_of(node), EntryId(Epoch(e), Offset(o)))
            for node, e, o in sorted(fenced)
            if node != leader
        )
        request = BecomeLeaderRequest(SHARD, Epoch(operator.epoch), self.nodes, heads)
        return s.but(
            operator=Operator(
                operator.epoch, "telling", fenced, leader, frozenset(node for node, _, _ in fenced)
            ),
            messages=self.told(s.messages, [(leader, request)]),
        )

    def added(self, s: State, n: int, head: Head) -> tuple[int, Any]:
        """The request to add a follower, for the leader."""
        assert s.operator.leader is not None
        at = EntryId(Epoch(head[0]), Offset(head[1]))
        request = AddFollowerRequest(SHARD, Epoch(s.operator.epoch), self.name_of(n), at)
        return s.operator.leader, request

    # what must hold

    @invariant
    def no_log_divergence(self, s: State) -> bool:
        """What one node has applied, another has applied there too, or nothing yet."""
        logs = sorted((self.seen[number].applied for number in s.node), key=len)
        return all(b[: len(a)] == a for a, b in pairwise(logs))

    @invariant
    def no_loss_of_confirmed_write(self, s: State) -> bool:
        """Who serves in the newest epoch has everything that anybody has applied."""
        nodes = [self.seen[number] for number in s.node]
        newest = max(node.epoch for node in nodes)
        longest = max(len(node.applied) for node in nodes)
        return all(
            node.head >= longest for node in nodes if node.is_serving and node.epoch == newest
        )

    @invariant
    def core_holds(self, s: State) -> bool:
        """The invariants that the core has of itself."""
        return not any(self.seen[number].broken for number in s.node)

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        return {
            "one-answer-elects": Variant(
                "the operator chooses a leader by a single answer",
                OneAnswerElects,
                breaks="NoLogDivergence",
                settings={"nodes": 3, "values": 0, "epochs": 2},
            )
        }


def _seen(node: CoreNode) -> Seen:
    replica = node.replica
    broken = tuple(each.invariant for each in node.shards.invariants())
    if replica is None:
        return Seen((), 0, 0, False, broken)
    return Seen(tuple(node.applied), replica.epoch, replica.head.offset, replica.is_serving, broken)


class OneAnswerElects(ShardLogCore):
    """Two leaders, each with a majority of its own."""

    @property
    def majority(self) -> int:
        return 1
