"""Writing and replicating: a client writes to a leader, which sends entries and counts confirmations."""

from __future__ import annotations

from typing import TypeVar

from motet.verify.model import Domain, action, chosen, require
from motet.verify.models.shard_log.records import (
    NO_ENTRY,
    AddEntry,
    AddEntryResponse,
    Cursor,
    Entry,
    EntryId,
    Node,
    State,
)
from motet.verify.models.shard_log.shape import ShardShape

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
