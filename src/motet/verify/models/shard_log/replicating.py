"""Writing and replicating: a client writes to a leader, which sends entries and counts confirmations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from motet.errors import BadInput
from motet.verify.model import (
    Domain,
    Model,
    action,
    chosen,
    invariant,
    numbered,
    parameter,
    require,
)
from motet.verify.models.shard_log.records import (
    NO_CURSOR,
    NO_ENTRY,
    AddEntry,
    AddEntryResponse,
    AddFollower,
    Bag,
    Commit,
    Cursor,
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

# The shard-log model without its actions: parameters, initial state, properties, and small helpers.

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


E = TypeVar("E", AddEntry, AddEntryResponse)


def _entry_id(message: AddEntry | AddEntryResponse) -> EntryId:
    return message.entry.id if isinstance(message, AddEntry) else message.entry_id


def earliest(kind: type[E]) -> Domain:
    """Entries and their confirmations arrive in order between two nodes."""

    def choose(_: object, s: State) -> list[E]:
        found = [m for m in s.messages.pending if type(m) is kind]
        return [m for m in found if not any(_is_before(other, m) for other in found)]

    return chosen(choose)


def _is_before(one: E, other: E) -> bool:
    same = (one.dest_node, one.source_node) == (other.dest_node, other.source_node)
    return same and _entry_id(one) < _entry_id(other)


class Replicating(ShardShape):
    """The actions of a steady shard."""

    Nodes, Values = ShardShape.Nodes, ShardShape.Values

    @action(n=Nodes, v=Values)
    def write(self, s: State, n: int, v: int) -> State:
        node = s.node[n]
        require(node.status == "leader" and s.confirmed[v] is None)
        entry = Entry((node.epoch, node.head_index[1] + 1), v)
        after = node.but(log=tuple(sorted((*node.log, entry))), head_index=entry.id)
        written = (*s.confirmed[:v], False, *s.confirmed[v + 1 :])
        return self.put_node(s, n, after, s.messages).but(confirmed=written)

    def can_send(self, s: State, leader: Node, follower: int) -> bool:
        """Whether there is something to send to an attached follower."""
        cursor = leader.follow_cursor[follower]
        return (
            cursor.status == "attached"
            and leader.head_index > cursor.last_pushed
            and s.node[follower].status != "not_member"
        )

    @action(n=Nodes)
    def leader_sends_entries_to_followers(self, s: State, n: int) -> State:
        """To all that can be sent to at once, which keeps the number of states down."""
        leader = s.node[n]
        require(leader.status == "leader")
        followers = [f for f in range(self.nodes) if f != n and self.can_send(s, leader, f)]
        require(followers)
        cursors, sent = list(leader.follow_cursor), []
        for follower in followers:
            cursor = cursors[follower]
            entry = min(e for e in leader.log if e.id > cursor.last_pushed)
            cursors[follower] = cursor.but(last_pushed=entry.id)
            sent.append(AddEntry(follower, n, leader.epoch, entry, leader.commit_index))
        after = leader.but(follow_cursor=tuple(cursors))
        return self.put_node(s, n, after, s.messages.send(*sent))

    def confirmation_epoch(self, node: Node, m: AddEntry) -> int:  # noqa: ARG002
        """The epoch of a confirmation: as published, the follower's before it took the entry."""
        return node.epoch

    @action(m=earliest(AddEntry))
    def follower_confirms_entry(self, s: State, m: AddEntry) -> State:
        node = s.node[m.dest_node]
        require(node.status in ("follower", "fenced") and node.epoch <= m.epoch)
        log = node.log if m.entry in node.log else tuple(sorted((*node.log, m.entry)))
        after = node.but(
            status="follower",
            epoch=m.epoch,
            leader=m.source_node,
            log=log,
            head_index=m.entry.id,
            commit_index=m.commit_index,
        )
        epoch = self.confirmation_epoch(node, m)
        answer = AddEntryResponse(m.source_node, m.dest_node, epoch, m.entry.id, is_ok=True)
        return self.put_node(s, m.dest_node, after, s.messages.processed(m, answer))

    @action(m=earliest(AddEntry))
    def follower_rejects_entry(self, s: State, m: AddEntry) -> State:
        require(s.node[m.dest_node].epoch > m.epoch)
        answer = AddEntryResponse(m.source_node, m.dest_node, m.epoch, m.entry.id, is_ok=False)
        return s.but(messages=s.messages.processed(m, answer))

    # counting

    def reached_quorum(self, entry: EntryId, cursors: tuple[Cursor, ...], rep_factor: int) -> bool:
        """Whether a majority has the entry; the leader, which has it, is not counted."""
        holders = [c for c in cursors if c.status == "attached" and entry <= c.last_confirmed]
        return len(holders) >= rep_factor // 2

    def is_committed(
        self, node: Node, entry: EntryId, cursors: tuple[Cursor, ...], rep_factor: int
    ) -> bool:
        """Whether an entry and all before it are at a majority, and it is of the current epoch."""
        return self.may_commit(node, entry) and all(
            self.reached_quorum(e.id, cursors, rep_factor) for e in node.log if e.id <= entry
        )

    def may_commit(self, node: Node, entry: EntryId) -> bool:
        """Entries of earlier epochs are committed by one of this epoch, never by themselves."""
        return entry[0] == node.epoch

    def new_commit_index(self, node: Node, cursors: tuple[Cursor, ...], rep_factor: int) -> EntryId:
        """The highest entry that is committed under these cursors."""
        return max(
            (e.id for e in node.log if self.is_committed(node, e.id, cursors, rep_factor)),
            default=NO_ENTRY,
        )

    @action(m=earliest(AddEntryResponse))
    def leader_handles_entry_confirm(self, s: State, m: AddEntryResponse) -> State:
        n, follower = m.dest_node, m.source_node
        node = s.node[n]
        require(node.status == "leader" and node.epoch == m.epoch and m.is_ok)
        cursor = node.follow_cursor[follower]
        require(cursor.status == "attached")
        cursors = (
            *node.follow_cursor[:follower],
            cursor.but(last_confirmed=m.entry_id),
            *node.follow_cursor[follower + 1 :],
        )
        after, confirmed = node.but(follow_cursor=cursors), s.confirmed
        if self.is_committed(node, m.entry_id, cursors, node.rep_factor):
            after = after.but(commit_index=max(node.commit_index, m.entry_id))
            (value,) = [e.value for e in node.log if e.id == m.entry_id]
            confirmed = self.told(confirmed, [value])
        return self.put_node(s, n, after, s.messages.processed(m)).but(confirmed=confirmed)

    def told(
        self, confirmed: tuple[bool | None, ...], values: list[int]
    ) -> tuple[bool | None, ...]:
        """The clients of these values have been told."""
        return tuple(
            True if v in values and known is not None else known
            for v, known in enumerate(confirmed)
        )

    @action(m=earliest(AddEntryResponse))
    def leader_handles_entry_rejection(self, s: State, m: AddEntryResponse) -> State:
        node = s.node[m.dest_node]
        require(node.status == "leader" and node.epoch == m.epoch and not m.is_ok)
        after = node.but(status="fenced", follow_cursor=self.no_cursors())
        return self.put_node(s, m.dest_node, after, s.messages.processed(m))
