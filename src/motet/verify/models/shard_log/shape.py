"""The shard-log model without its actions: parameters, initial state, properties, and small helpers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from motet.errors import BadInput
from motet.verify.model import Domain, Model, chosen, invariant, numbered, parameter
from motet.verify.models.shard_log.records import (
    NO_CURSOR,
    NO_ENTRY,
    AddEntry,
    AddEntryResponse,
    AddFollower,
    Bag,
    Commit,
    Entry,
    EntryId,
    Message,
    Metadata,
    Node,
    Operator,
    Prepare,
    State,
    Truncate,
    TruncateResponse,
)

M = TypeVar("M", bound=Message)


def messages(kind: type[Message]) -> Domain:
    """The messages of a kind that are on their way: ``\\E msg \\in DOMAIN messages``."""
    return chosen(lambda _, s: [m for m in s.messages.pending if type(m) is kind])


def is_quorum(count: int, ensemble: Iterable[int]) -> bool:
    """Whether so many are a majority of the ensemble."""
    return count >= len(list(ensemble)) // 2 + 1


def head_of(log: tuple[Entry, ...]) -> EntryId:
    """The last id of a log."""
    return log[-1].id if log else NO_ENTRY


class ShardShape(Model[State]):
    """Parameters, state and properties of the shard log."""

    state_type = State
    may_end = True
    auxiliary = ("confirmed", "operator_stop_ctr")
    operators = parameter(1, least=1, most=2, what="operators that may run")
    nodes = parameter(3, least=1, most=6, what="data nodes")
    values = parameter(1, least=0, most=4, what="values that clients write")
    epochs = parameter(2, least=1, most=8, what="epochs at most")
    stops = parameter(0, least=0, most=3, what="times an operator may stop")
    rep_factor = parameter(3, least=1, most=5, what="size of the first ensemble")
    Operators = numbered("operators", "o")
    Nodes = numbered("nodes", "n")
    Values = numbered("values", "v")

    def prepare(self) -> None:
        if self.rep_factor > self.nodes:
            raise BadInput(
                f"an ensemble of {self.rep_factor} cannot be had from {self.nodes} nodes",
                hint="choose rep_factor <= nodes",
            )

    def initial(self) -> Iterator[State]:
        yield State(
            Metadata(frozenset(range(self.rep_factor)), self.rep_factor),
            (Node(self.no_cursors()),) * self.nodes,
            (Operator(),) * self.operators,
            (None,) * self.values,
        )

    # helpers of the actions

    def no_cursors(self) -> Any:
        """A cursor for nobody."""
        return (NO_CURSOR,) * self.nodes

    def put_node(self, s: State, n: int, node: Node, messages: Bag) -> State:
        """The state with one node replaced and other messages."""
        return s.but(node=(*s.node[:n], node, *s.node[n + 1 :]), messages=messages)

    def put_operator(self, s: State, o: int, operator: Operator) -> State:
        """The state with one operator replaced."""
        return s.but(operator=(*s.operator[:o], operator, *s.operator[o + 1 :]))

    def write_metadata(self, s: State, o: int, md: Metadata, **changed: Any) -> State:
        """The operator writes the metadata, and knows its new version."""
        version = s.metadata_version + 1
        operator = s.operator[o].but(md=md, md_version=version, **changed)
        return self.put_operator(s, o, operator).but(metadata=md, metadata_version=version)

    # what must hold

    @invariant
    def no_loss_of_confirmed_write(self, s: State) -> bool:
        """What a client was told is in the leader's log."""
        if s.metadata.leader is None or not any(s.confirmed):
            return True
        held = {entry.value for entry in s.node[s.metadata.leader].log}
        return all(value in held for value, told in enumerate(s.confirmed) if told)

    @invariant
    def no_log_divergence(self, s: State) -> bool:
        """Up to its commit index, the log of every member is a part of the leader's."""
        if s.metadata.leader is None:
            return True
        leader = {entry.id: entry.value for entry in s.node[s.metadata.leader].log}
        return all(
            leader.get(entry.id) == entry.value
            for n in s.metadata.ensemble
            for entry in s.node[n].log
            if entry.id <= s.node[n].commit_index
        )

    @invariant
    def valid_messages(self, s: State) -> bool:
        """Nobody addresses itself."""
        return not any(_is_odd(m) for m in (*s.messages.pending, *s.messages.done))

    @invariant
    def legal_leader_and_ensemble(self, s: State) -> bool:
        """A leader is a member, and the replication factor is the size of the ensemble."""
        known = [s.metadata, *(o.md for o in s.operator if o.md is not None)]
        leads = all(md.leader is None or md.leader in md.ensemble for md in known)
        return leads and s.metadata.rep_factor == len(s.metadata.ensemble)


def _is_odd(message: Message) -> bool:
    if isinstance(message, AddFollower):
        return message.follower == message.node
    if isinstance(message, AddEntry | AddEntryResponse | Truncate | TruncateResponse):
        return message.dest_node == message.source_node
    if isinstance(message, Prepare):
        return message.node == message.old_node
    return isinstance(message, Commit) and message.node == message.new_node
