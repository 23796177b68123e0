"""Changing the ensemble: swap, expand and contract, each a two-phase commit driven by an operator."""

from __future__ import annotations

from typing import Any

from motet.verify.model import Variant, action, require
from motet.verify.models.shard_log.election import Election
from motet.verify.models.shard_log.records import (
    NO_CURSOR,
    NO_ENTRY,
    AnyMessage,
    Commit,
    CommitResponse,
    Cursor,
    EntryId,
    Metadata,
    Node,
    Operation,
    Operator,
    Prepare,
    PrepareResponse,
    Reconfiguration,
    Snapshot,
    SnapshotResponse,
    State,
)
from motet.verify.models.shard_log.replicating import Replicating, messages


class Reconfiguring(Replicating):
    """The actions of a reconfiguration."""

    Operators, Nodes = Replicating.Operators, Replicating.Nodes

    def may_reconfigure(self, s: State, o: int) -> Metadata:
        """What the operator knows, if it may begin."""
        me = s.operator[o]
        require(s.metadata.epoch < self.epochs and me.is_running and me.md is not None)
        assert me.md is not None
        require(me.md.shard_status == "steady_state" and me.md.reconfig is None)
        require(me.md_version == s.metadata_version)
        return me.md

    def begin(
        self, s: State, o: int, op: Operation, rep_factor: int, old: int | None, new: int | None
    ) -> State:
        """Write the reconfiguration down and ask the leader to prepare."""
        me = s.operator[o]
        assert me.md is not None
        assert me.md.leader is not None
        epoch = s.metadata.epoch + 1
        change = Reconfiguration("prepare", op, epoch, rep_factor, old, new)
        md = me.md.but(shard_status="reconfiguration", epoch=epoch, reconfig=change)
        request = Prepare(me.md.leader, o, epoch, op, old)
        return self.write_metadata(s.but(messages=s.messages.send(request)), o, md)

    @action(o=Operators, old=Nodes, new=Nodes)
    def operator_starts_node_swap_reconfiguration(
        self, s: State, o: int, old: int, new: int
    ) -> State:
        md = self.may_reconfigure(s, o)
        require(old in md.ensemble and old != md.leader and new not in md.ensemble)
        return self.begin(s, o, "swap", md.rep_factor, old, new)

    @action(o=Operators, new=Nodes)
    def operator_starts_expand_reconfiguration(self, s: State, o: int, new: int) -> State:
        md = self.may_reconfigure(s, o)
        require(new not in md.ensemble)
        return self.begin(s, o, "expand", md.rep_factor + 1, None, new)

    @action(o=Operators, old=Nodes)
    def operator_starts_contract_reconfiguration(self, s: State, o: int, old: int) -> State:
        md = self.may_reconfigure(s, o)
        require(md.rep_factor > 3 and old in md.ensemble and old != md.leader)
        return self.begin(s, o, "contract", md.rep_factor - 1, old, None)

    @action(m=messages(Prepare))
    def leader_handles_prepare_reconfig_request(self, s: State, m: Prepare) -> State:
        node = s.node[m.node]
        require(node.epoch < m.epoch and node.status == "leader" and not node.reconfig_inprog)
        cursors = list(node.follow_cursor)
        if m.old_node is not None:
            cursors[m.old_node] = cursors[m.old_node].but(status="pending_removal")
        after = self.prepared(
            node.but(epoch=m.epoch, reconfig_inprog=True, follow_cursor=tuple(cursors))
        )
        snapshot = m.op != "contract"
        answer = PrepareResponse(
            m.node,
            m.operator,
            m.epoch,
            m.op,
            node.log if snapshot else (),
            node.head_index if snapshot else NO_ENTRY,
            node.commit_index if snapshot else NO_ENTRY,
        )
        return self.put_node(s, m.node, after, s.messages.processed(m, answer))

    def prepared(self, node: Node) -> Node:
        """What else a leader does when its epoch is raised: as published, nothing."""
        return node

    # the operator carries it on

    def commit_request(self, me: Operator, o: int, head: EntryId) -> Commit:
        """What the leader is told at last."""
        assert me.md is not None
        change = me.md.reconfig
        assert change is not None
        assert me.md.leader is not None
        return Commit(
            me.md.leader,
            o,
            me.md.epoch,
            change.op,
            change.rep_factor,
            change.old_node,
            change.new_node,
            head,
        )

    def preparing(self, s: State, m: AnyMessage) -> Operator:
        """The operator that waits for this answer in the prepare phase."""
        operator: int = m.operator  # type: ignore[union-attr]
        me = s.operator[operator]
        require(me.is_running and me.md is not None and me.md.shard_status == "reconfiguration")
        assert me.md is not None
        assert me.md.reconfig is not None
        require(me.md.reconfig.phase == "prepare" and me.md_version == s.metadata_version)
        require(me.md.epoch == m.epoch)
        return me

    @action(m=messages(PrepareResponse))
    def operator_handles_prepare_reconfig_response(self, s: State, m: PrepareResponse) -> State:
        me = self.preparing(s, m)
        assert me.md is not None
        assert me.md.reconfig is not None
        change = me.md.reconfig
        if m.op == "contract":
            md = me.md.but(reconfig=change.but(phase="commit"))
            request = self.commit_request(me, m.operator, NO_ENTRY)
            return self.write_metadata(
                s.but(messages=s.messages.processed(m, request)), m.operator, md
            )
        assert change.new_node is not None
        snapshot = Snapshot(
            change.new_node, m.operator, me.md.epoch, m.snapshot, m.head_index, m.commit_index
        )
        return s.but(messages=s.messages.processed(m, snapshot))

    @action(m=messages(Snapshot))
    def node_handles_snapshot_request(self, s: State, m: Snapshot) -> State:
        node = s.node[m.node]
        require(node.epoch < m.epoch)
        after = node.but(
            status="fenced",
            epoch=m.epoch,
            follow_cursor=self.no_cursors(),
            log=m.snapshot,
            head_index=m.head_index,
            commit_index=m.commit_index,
        )
        answer = SnapshotResponse(m.node, m.operator, m.epoch, m.head_index)
        return self.put_node(s, m.node, after, s.messages.processed(m, answer))

    @action(m=messages(SnapshotResponse))
    def operator_handles_snapshot_response(self, s: State, m: SnapshotResponse) -> State:
        me = self.preparing(s, m)
        assert me.md is not None
        assert me.md.reconfig is not None
        change = me.md.reconfig.but(phase="commit", new_node_head_index=m.head_index)
        request = self.commit_request(me, m.operator, m.head_index)
        return self.write_metadata(
            s.but(messages=s.messages.processed(m, request)),
            m.operator,
            me.md.but(reconfig=change),
        )

    # the leader commits

    def committing(self, s: State, m: Commit, op: Operation) -> Node:
        """The leader that has prepared this change."""
        node = s.node[m.node]
        require(m.op == op and node.epoch == m.epoch and node.status == "leader")
        require(node.reconfig_inprog)
        return node

    def commit_index_after(self, node: Node, recomputed: EntryId) -> EntryId:  # noqa: ARG002
        """The leader's commit index after its cursors changed: as published, whatever comes out."""
        return recomputed

    def committed(self, s: State, m: Commit, cursors: tuple[Cursor, ...], **changed: Any) -> State:
        """The leader with its new cursors, its commit index counted again, and the answer."""
        node = s.node[m.node]
        index = self.commit_index_after(node, self.new_commit_index(node, cursors, m.rep_factor))
        after = node.but(
            follow_cursor=cursors, commit_index=index, reconfig_inprog=False, **changed
        )
        answer = CommitResponse(m.node, m.operator, m.epoch, m.op, m.old_node, m.new_node)
        told = self.told(s.confirmed, [e.value for e in node.log if e.id <= index])
        return self.put_node(s, m.node, after, s.messages.processed(m, answer)).but(confirmed=told)

    @action(m=messages(Commit))
    def leader_handles_commit_node_swap_reconfig_request(self, s: State, m: Commit) -> State:
        node = self.committing(s, m, "swap")
        assert m.old_node is not None
        assert m.new_node is not None
        cursors = list(node.follow_cursor)
        require(cursors[m.old_node].status == "pending_removal")
        require(cursors[m.new_node].status == "none")
        cursors[m.old_node] = NO_CURSOR
        cursors[m.new_node] = Cursor("attached", m.head_index, m.head_index)
        return self.committed(s, m, tuple(cursors))

    @action(m=messages(Commit))
    def leader_handles_commit_expand_reconfig_request(self, s: State, m: Commit) -> State:
        node = self.committing(s, m, "expand")
        assert m.new_node is not None
        cursors = list(node.follow_cursor)
        require(cursors[m.new_node].status == "none")
        cursors[m.new_node] = Cursor("attached", m.head_index, m.head_index)
        return self.committed(s, m, tuple(cursors), rep_factor=m.rep_factor)

    @action(m=messages(Commit))
    def leader_handles_commit_contract_reconfig_request(self, s: State, m: Commit) -> State:
        node = self.committing(s, m, "contract")
        assert m.old_node is not None
        cursors = list(node.follow_cursor)
        require(cursors[m.old_node].status == "pending_removal")
        cursors[m.old_node] = NO_CURSOR
        index = self.new_commit_index(node, tuple(cursors), m.rep_factor)
        require(self.may_contract(node, index))
        after = node.but(
            rep_factor=m.rep_factor, follow_cursor=tuple(cursors), reconfig_inprog=False
        )
        answer = CommitResponse(m.node, m.operator, m.epoch, m.op, m.old_node, None)
        return self.put_node(s, m.node, after, s.messages.processed(m, answer))

    def may_contract(self, node: Node, recomputed: EntryId) -> bool:
        """Whether nothing that is committed loses its majority."""
        return recomputed == node.commit_index

    def may_complete(self, s: State, me: Operator) -> bool:  # noqa: ARG002
        """Whether the metadata store takes the last write: as published, it is not asked."""
        return True

    @action(m=messages(CommitResponse))
    def operator_completes_reconfiguration(self, s: State, m: CommitResponse) -> State:
        me = s.operator[m.operator]
        require(me.is_running and me.md is not None and me.md.epoch == m.epoch)
        assert me.md is not None
        change = me.md.reconfig
        require(me.md.shard_status == "reconfiguration" and change is not None)
        assert change is not None
        require(change.phase == "commit" and self.may_complete(s, me))
        old = frozenset() if m.old_node is None else frozenset((m.old_node,))
        new = frozenset() if m.new_node is None else frozenset((m.new_node,))
        md = me.md.but(
            shard_status="steady_state",
            ensemble=me.md.ensemble - old | new,
            rep_factor=change.rep_factor,
            reconfig=None,
        )
        return self.write_metadata(s.but(messages=s.messages.processed(m)), m.operator, md)


# The shard log as it was published (``OxiaReplication.tla`` of January 2022).


class ShardLog(Election, Reconfiguring):
    """A shard's log: operators elect leaders by fencing, leaders replicate, the ensemble is changed.

    Messages are sent once, arrive in any order (entries between two nodes in theirs), never twice; an
    operator may start an election at any time, and loses its memory when it stops. A write of the metadata
    and the messages that follow from it are one step. Reconfigurations need at least four nodes and three
    epochs; the published size (1 operator, 3 nodes, 2 epochs) has none.
    """

    name = "shard-log"

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        from motet.verify.models.shard_log.held import published_variants

        return published_variants()
