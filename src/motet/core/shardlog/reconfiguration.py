"""Changing the ensemble as its leader does it: prepare, commit, abort, for swap, expand and contract.

Prepare raises the leader's epoch; a barrier follows, so that there is something of the new epoch to commit
even when nobody writes. The old node, if there is one, gets nothing any more and does not count. A swap or
an expansion gets a snapshot for the new node, which has everything that was committed before.

Commit changes who counts and how many are needed. The commit index never falls by it. A contraction waits
until what is committed is on a majority of those that stay.

X1  At most one change at a time, and of two requests for the same change the second is answered like the
    first.
X2  After an abort everything is as before, but for the epoch.
"""

from __future__ import annotations

from motet.core.shardlog import quorum, storage
from motet.core.shardlog.alignment import add_cursor
from motet.core.shardlog.context import Core
from motet.core.shardlog.leader import append_barrier, has_clock
from motet.core.shardlog.messages import (
    AbortReconfigurationRequest,
    AbortReconfigurationResponse,
    CommitReconfigurationRequest,
    CommitReconfigurationResponse,
    PrepareReconfigurationRequest,
    PrepareReconfigurationResponse,
    ReconfigurationOp,
    Refusal,
    ShardMessage,
)
from motet.core.shardlog.snapshot import take_snapshot
from motet.core.shardlog.state import CommittedChange, Reconfiguring
from motet.ids import Address
from motet.limits import shard_replicas_max

# Prepare


def on_prepare(core: Core, sender: Address, message: PrepareReconfigurationRequest) -> None:
    """A change begins."""
    state = core.state
    change = state.reconfiguring
    if change is not None and _is_same(change, message):
        change.asker, change.is_answered = sender, False
        answer_prepare(core)
        return
    why = _objection(core, message)
    if why is not None:
        core.refuse(sender, message, *why)
        return
    state.epoch = message.epoch
    storage.write_meta(core)
    state.reconfiguring = Reconfiguring(
        message.epoch,
        message.op,
        message.old_node,
        message.new_node,
        sender,
        commit_offset=state.commit_index.offset,
    )
    old = None if message.old_node is None else state.cursors.get(message.old_node)
    if old is not None:
        old.is_leaving = True
    core.note(f"prepared_{message.op.value}", f"epoch {message.epoch}")
    append_barrier(core)
    answer_prepare(core)


def _is_same(
    change: Reconfiguring | CommittedChange,
    message: PrepareReconfigurationRequest | CommitReconfigurationRequest,
) -> bool:
    return (change.epoch, change.op, change.old_node, change.new_node) == (
        message.epoch,
        message.op,
        message.old_node,
        message.new_node,
    )


def _objection(core: Core, message: PrepareReconfigurationRequest) -> tuple[Refusal, str] | None:
    state = core.state
    if not core.is_leader:
        return Refusal.NOT_LEADER, ""
    if message.epoch <= state.epoch:
        return Refusal.INVALID_EPOCH, ""
    if state.reconfiguring is not None:
        return Refusal.RECONFIGURING, f"{state.reconfiguring.op.value} is prepared"
    if not core.is_serving:
        return Refusal.NOT_READY, ""
    if not has_clock(core):
        return Refusal.UNSAFE, "its clock is at the end of its range"
    needs_old = message.op is not ReconfigurationOp.EXPAND
    needs_new = message.op is not ReconfigurationOp.CONTRACT
    if needs_old != (message.old_node is not None) or needs_new != (message.new_node is not None):
        return Refusal.UNSAFE, "it names other nodes than such a change has"
    if core.own in (message.old_node, message.new_node) or message.old_node == message.new_node:
        return Refusal.UNSAFE, "a leader stays, and a new node is another one"
    if message.new_node in state.cursors:
        return Refusal.UNSAFE, f"{message.new_node} is in the ensemble already"
    if message.op is ReconfigurationOp.EXPAND and state.replication_factor >= shard_replicas_max:
        return Refusal.UNSAFE, f"more than {shard_replicas_max} replicas"
    if message.op is ReconfigurationOp.CONTRACT and state.replication_factor <= 1:
        return Refusal.UNSAFE, "one replica is left at least"
    return None


def answer_prepare(core: Core) -> None:
    """Answer when the epoch is durable, and a snapshot has all that was committed before."""
    state = core.state
    change = state.reconfiguring
    if change is None or change.is_answered or not core.is_epoch_durable:
        return
    if change.op is not ReconfigurationOp.CONTRACT:
        if state.applied < change.commit_offset:
            return
        if change.snapshot is None or change.snapshot.number not in state.given:
            change.snapshot = take_snapshot(core)
    change.is_answered = True
    response = PrepareReconfigurationResponse(
        core.shard,
        state.epoch,
        change.op,
        change.snapshot,
        state.log.head,
        state.commit_index,
    )
    core.send(change.asker, response)


# Commit


def on_commit(core: Core, sender: Address, message: CommitReconfigurationRequest) -> None:
    """The change takes effect."""
    state = core.state
    why = _wrong_place(core, message)
    if why is not None:
        core.refuse(sender, message, why)
        return
    done = state.committed_change
    if done is not None and _is_same(done, message):
        _answer_commit(core, sender, message)
        return
    change = state.reconfiguring
    if change is None or not _is_same(change, message):
        core.refuse(sender, message, Refusal.NOT_PREPARED)
        return
    if not 0 < message.replication_factor <= shard_replicas_max:
        core.refuse(sender, message, Refusal.UNSAFE, "such an ensemble is none")
        return
    if message.op is ReconfigurationOp.CONTRACT and not _is_safe(core, message):
        core.refuse(sender, message, Refusal.UNSAFE, f"{state.commit_index} is on too few nodes")
        return
    if message.new_node is not None and message.head_index is None:
        core.refuse(sender, message, Refusal.UNSAFE, "the head of the new node is missing")
        return
    _commit(core, message)
    _answer_commit(core, sender, message)


def _wrong_place(core: Core, message: ShardMessage) -> Refusal | None:
    if not core.is_leader:
        return Refusal.NOT_LEADER
    return None if message.epoch == core.state.epoch else Refusal.INVALID_EPOCH


def _is_safe(core: Core, message: CommitReconfigurationRequest) -> bool:
    """Whether all that is committed is on a majority of those that stay."""
    state = core.state
    positions = [cursor.confirmed for cursor in state.cursors.values() if cursor.is_attached]
    positions.append(state.log.durable)
    entry = quorum.committed(positions, message.replication_factor, state.epoch, state.log.runs)
    return entry.offset >= state.commit_index.offset > 0


def _commit(core: Core, message: CommitReconfigurationRequest) -> None:
    state = core.state
    if message.old_node is not None:
        state.cursors.pop(message.old_node, None)
    state.replication_factor = message.replication_factor
    if message.new_node is not None and message.new_node not in state.cursors:
        assert message.head_index is not None
        add_cursor(core, message.new_node, message.head_index)
    state.reconfiguring = None
    state.committed_change = CommittedChange(
        message.epoch, message.op, message.old_node, message.new_node
    )
    core.note(f"committed_{message.op.value}", f"{message.replication_factor} replicas")


def _answer_commit(core: Core, sender: Address, message: CommitReconfigurationRequest) -> None:
    response = CommitReconfigurationResponse(
        core.shard, core.state.epoch, message.op, message.old_node, message.new_node
    )
    core.send(sender, response)


# Abort


def on_abort(core: Core, sender: Address, message: AbortReconfigurationRequest) -> None:
    """The change is called off (X2)."""
    state = core.state
    if not core.is_leader:
        core.refuse(sender, message, Refusal.NOT_LEADER)
        return
    if message.epoch < state.epoch:
        core.refuse(sender, message, Refusal.INVALID_EPOCH)
        return
    if message.epoch > state.epoch and not has_clock(core):
        core.refuse(sender, message, Refusal.UNSAFE, "its clock is at the end of its range")
        return
    done = state.committed_change
    if state.reconfiguring is None and done is not None and done.epoch == message.epoch:
        core.refuse(sender, message, Refusal.NOT_PREPARED, f"{done.op.value} is committed")
        return
    if state.reconfiguring is not None:
        core.note(f"aborted_{state.reconfiguring.op.value}", f"epoch {message.epoch}")
    state.reconfiguring = None
    for cursor in state.cursors.values():
        if cursor.is_leaving:
            cursor.is_leaving = False
            cursor.push_again(core.now_ns)
    if message.epoch > state.epoch:
        state.epoch = message.epoch
        storage.write_meta(core)
        append_barrier(core)
    response = AbortReconfigurationResponse(core.shard, state.epoch)
    core.send(sender, response, storage.newest_meta(core))
