"""Electing a leader: an operator fences a majority and chooses the highest head; the rest is cut back."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from motet.verify.model import action, chosen, require
from motet.verify.models.shard_log.records import (
    NO_CURSOR,
    NO_ENTRY,
    AddFollower,
    BecomeLeader,
    BecomeLeaderResponse,
    Cursor,
    EntryId,
    Fence,
    FenceResponse,
    Metadata,
    Node,
    Operator,
    State,
    Truncate,
    TruncateResponse,
)
from motet.verify.models.shard_log.replicating import ShardShape, head_of, is_quorum, messages


def _majorities(model: Any, s: State) -> list[tuple[int, ...]]:
    """The nodes that an election may reach. Fences are sent to all; this only counts the ways."""
    ensemble = sorted(model.fencing_ensemble(s.metadata))
    return [
        subset
        for size in range(len(ensemble) + 1)
        for subset in combinations(ensemble, size)
        if is_quorum(size, ensemble)
    ]


class Election(ShardShape):
    """The actions of an election."""

    Operators = ShardShape.Operators

    @action(o=Operators)
    def operator_starts(self, s: State, o: int) -> State:
        require(not s.operator[o].is_running)
        fresh = Operator(is_running=True, md_version=s.metadata_version, md=s.metadata)
        return self.put_operator(s, o, fresh)

    @action(o=Operators)
    def operator_stops(self, s: State, o: int) -> State:
        require(s.operator_stop_ctr < self.stops and s.operator[o].is_running)
        lost = [
            m
            for m in s.messages.pending
            if isinstance(m, BecomeLeader | BecomeLeaderResponse) and m.operator == o
        ]
        return self.put_operator(s, o, Operator()).but(
            operator_stop_ctr=s.operator_stop_ctr + 1, messages=s.messages.lose(lost)
        )

    def fencing_ensemble(self, md: Metadata) -> frozenset[int]:
        """Whose majority must be fenced: the ensemble, and a node that may have been added to it."""
        change = md.reconfig
        if change is None or change.phase != "commit" or change.new_node is None:
            return md.ensemble
        return md.ensemble | {change.new_node}

    def fenced(self, old: Metadata, md: Metadata) -> frozenset[int]:  # noqa: ARG002
        """To whom fences are sent: as published, only to the ensemble."""
        return old.ensemble

    @action(o=Operators, visible=chosen(_majorities))
    def operator_starts_election(self, s: State, o: int, visible: tuple[int, ...]) -> State:  # noqa: ARG002
        me = s.operator[o]
        require(s.metadata.epoch < self.epochs and me.is_running)
        require(me.md_version == s.metadata_version)
        assert me.md is not None
        epoch, change = me.md.epoch + 1, s.metadata.reconfig
        kept = change if change is not None and change.phase == "commit" else None
        md = s.metadata.but(epoch=epoch, shard_status="election", leader=None, reconfig=kept)
        fences = [Fence(n, o, epoch) for n in sorted(self.fenced(me.md, s.metadata))]
        return self.write_metadata(
            s.but(messages=s.messages.send(*fences)),
            o,
            md,
            election_phase="fencing",
            fencing_ensemble=self.fencing_ensemble(s.metadata),
            final_ensemble=frozenset(),
            election_leader=None,
            fence_responses=(),
        )

    @action(m=messages(Fence))
    def node_handles_fencing_request(self, s: State, m: Fence) -> State:
        node = s.node[m.node]
        require(node.epoch < m.epoch)
        after = node.but(
            epoch=m.epoch,
            status="fenced",
            rep_factor=0,
            follow_cursor=self.no_cursors(),
            reconfig_inprog=False,
        )
        answer = FenceResponse(m.node, m.operator, m.epoch, node.head_index)
        return self.put_node(s, m.node, after, s.messages.processed(m, answer))

    # the operator counts

    def hears(self, s: State, m: FenceResponse) -> tuple[FenceResponse, ...]:
        """The responses of a running election with one more, if it is one of them."""
        me = s.operator[m.operator]
        require(me.is_running and me.md is not None and me.md.shard_status == "election")
        assert me.md is not None
        require(me.election_phase == "fencing" and me.md.epoch == m.epoch)
        return tuple(sorted({*me.fence_responses, m}))

    def has_majority(self, me: Operator, responses: tuple[FenceResponse, ...]) -> bool:
        """Whether a leader may be chosen."""
        return is_quorum(len(responses), me.fencing_ensemble)

    @action(m=messages(FenceResponse))
    def operator_handles_pre_quorum_fencing_response(self, s: State, m: FenceResponse) -> State:
        responses = self.hears(s, m)
        me = s.operator[m.operator]
        require(not self.has_majority(me, responses))
        after = self.put_operator(s, m.operator, me.but(fence_responses=responses))
        return after.but(messages=s.messages.processed(m))

    def final_ensemble(self, md: Metadata) -> frozenset[int]:
        """The ensemble after the election: a swap or expand in its commit phase is carried out."""
        change = md.reconfig
        if change is None or change.phase != "commit" or change.new_node is None:
            return md.ensemble
        old = frozenset() if change.old_node is None else frozenset((change.old_node,))
        return md.ensemble - old | {change.new_node}

    def leader_rep_factor(self, md: Metadata, final: frozenset[int]) -> int:  # noqa: ARG002
        """The replication factor the new leader is told: as published, the one before the election."""
        return md.rep_factor

    def winner(self, candidates: list[FenceResponse]) -> FenceResponse:
        """The highest head; of equal ones the first node."""
        return min(candidates, key=lambda r: (-r.head_index[0], -r.head_index[1], r.node))

    @action(m=messages(FenceResponse))
    def operator_handles_quorum_fencing_response(self, s: State, m: FenceResponse) -> State:
        responses = self.hears(s, m)
        me = s.operator[m.operator]
        require(self.has_majority(me, responses))
        assert me.md is not None
        final = self.final_ensemble(me.md)
        candidates = [r for r in responses if r.node in final]
        require(candidates)
        leader = self.winner(candidates).node
        heads = {r.node: r.head_index for r in candidates if r.node != leader}
        after = me.but(
            election_phase="notify_leader",
            election_leader=leader,
            final_ensemble=final,
            fence_responses=responses,
        )
        request = BecomeLeader(
            leader,
            m.operator,
            me.md.epoch,
            self.leader_rep_factor(me.md, final),
            tuple(heads.get(n) for n in range(self.nodes)),
        )
        return self.put_operator(s, m.operator, after).but(
            messages=s.messages.processed(m, request)
        )

    # the leader takes over

    def needs_truncation(self, node: Node, head: EntryId) -> bool:
        """Whether a follower with this head may have entries that the leader does not have."""
        return head[0] != node.head_index[0] or head[1] > node.head_index[1]

    def truncation_point(self, node: Node, head: EntryId) -> EntryId:
        """The leader's highest entry of the follower's epoch or before."""
        return max((e.id for e in node.log if e.id[0] <= head[0]), default=NO_ENTRY)

    def cursor_at(self, node: Node, head: EntryId) -> Cursor:
        """The cursor of a follower with this head."""
        if self.needs_truncation(node, head):
            return Cursor("pending_truncate")
        return Cursor("attached", head, head)

    @action(m=messages(BecomeLeader))
    def node_handles_become_leader_request(self, s: State, m: BecomeLeader) -> State:
        node = s.node[m.node]
        require(node.epoch == m.epoch)
        followers = [(f, head) for f, head in enumerate(m.follower_map) if head is not None]
        cursors = tuple(
            NO_CURSOR if head is None else self.cursor_at(node, head) for head in m.follower_map
        )
        truncates = [
            Truncate(f, m.node, node.epoch, self.truncation_point(node, head))
            for f, head in followers
            if self.needs_truncation(node, head)
        ]
        after = node.but(
            status="leader", leader=m.node, rep_factor=m.rep_factor, follow_cursor=cursors
        )
        answer = BecomeLeaderResponse(m.node, m.operator, m.epoch)
        return self.put_node(s, m.node, after, s.messages.processed(m, *truncates, answer))

    @action(m=messages(BecomeLeaderResponse))
    def operator_handles_become_leader_response(self, s: State, m: BecomeLeaderResponse) -> State:
        me = s.operator[m.operator]
        require(me.is_running and me.md is not None and me.md.shard_status == "election")
        assert me.md is not None
        require(me.election_phase == "notify_leader" and me.md.epoch == m.epoch)
        require(s.metadata_version == me.md_version)
        md = me.md.but(
            shard_status="steady_state",
            leader=m.node,
            ensemble=me.final_ensemble,
            rep_factor=len(me.final_ensemble),
            reconfig=None,
        )
        return self.write_metadata(
            s.but(messages=s.messages.processed(m)), m.operator, md, election_phase="leader_elected"
        )

    @action(m=messages(FenceResponse))
    def operator_handles_post_quorum_fencing_response(self, s: State, m: FenceResponse) -> State:
        me = s.operator[m.operator]
        require(me.is_running and me.election_phase == "leader_elected" and me.md is not None)
        assert me.md is not None
        assert me.election_leader is not None
        require(m.node in me.md.ensemble and me.md.epoch == m.epoch)
        responses = tuple(sorted({*me.fence_responses, m}))
        request = AddFollower(me.election_leader, m.node, me.md.epoch, m.head_index)
        after = self.put_operator(s, m.operator, me.but(fence_responses=responses))
        return after.but(messages=s.messages.processed(m, request))

    @action(m=messages(AddFollower))
    def leader_handles_add_follower_request(self, s: State, m: AddFollower) -> State:
        node = s.node[m.node]
        require(node.epoch == m.epoch and node.status == "leader")
        require(node.follow_cursor[m.follower].status == "none")
        cursors = node.follow_cursor
        cursor = self.cursor_at(node, m.head_index)
        after = node.but(follow_cursor=(*cursors[: m.follower], cursor, *cursors[m.follower + 1 :]))
        sent = []
        if cursor.status == "pending_truncate":
            point = self.truncation_point(node, m.head_index)
            sent = [Truncate(m.follower, m.node, node.epoch, point)]
        return self.put_node(s, m.node, after, s.messages.processed(m, *sent))

    # and cuts back who has too much

    def may_truncate(self, node: Node, m: Truncate) -> bool:
        """Whether a node lets its log be cut."""
        return node.status == "fenced" and node.epoch == m.epoch

    @action(m=messages(Truncate))
    def node_handles_truncate_request(self, s: State, m: Truncate) -> State:
        node = s.node[m.dest_node]
        require(self.may_truncate(node, m))
        log = tuple(entry for entry in node.log if entry.id <= m.head_index)
        after = node.but(
            status="follower",
            leader=m.source_node,
            log=log,
            head_index=head_of(log),
            follow_cursor=self.no_cursors(),
        )
        answer = TruncateResponse(m.source_node, m.dest_node, m.epoch, head_of(log))
        return self.put_node(s, m.dest_node, after, s.messages.processed(m, answer))

    @action(m=messages(TruncateResponse))
    def leader_handles_truncate_response(self, s: State, m: TruncateResponse) -> State:
        node = s.node[m.dest_node]
        require(node.status == "leader" and node.epoch == m.epoch)
        cursors = node.follow_cursor
        cursor = Cursor("attached", m.head_index, m.head_index)
        after = node.but(
            follow_cursor=(*cursors[: m.source_node], cursor, *cursors[m.source_node + 1 :])
        )
        return self.put_node(s, m.dest_node, after, s.messages.processed(m))
