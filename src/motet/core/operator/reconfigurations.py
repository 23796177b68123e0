"""Changing an ensemble: swap, expand and contract, each a two-phase commit that an election can resolve.

=========  ==================================================  =======================================
phase      what is asked                                       what comes after
=========  ==================================================  =======================================
PREPARE    the leader takes the new epoch, stops counting      swap, expand: SNAPSHOT
           the old node, and offers a snapshot                 contract: the store, then COMMIT
SNAPSHOT   the new node installs the snapshot                  the store, then COMMIT
COMMIT     the leader changes its ensemble                     the store: the new ensemble, steady
ABORT      the leader counts the old node again                the store: the old ensemble, steady
=========  ==================================================  =======================================

C1  The epoch is raised, and the store says PREPARE, before the leader hears of it; and says COMMIT, with the
    head of the new node, before the leader may change anything.
C2  Every message is repeated until it is answered. A contraction that is refused as unsafe is asked for
    again; after long enough it is rolled back, by an election.
C3  A PREPARE is aborted when the new node has died, was started again, or does not get on with its snapshot.
    From COMMIT on there is no abort: the leader may have done it.
C4  If the leader has died, was started again, or does not answer, an election resolves the change.
C5  Who leaves the ensemble, or does not get in, is remembered until its data is deleted.
C6  A snapshot takes as long as it takes: the patience with it begins anew with every piece. Were it given up
    after a fixed time, one that takes longer would be begun again and again, and never be whole.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.operator.context import Core
from motet.core.operator.elections import removed_nodes, start_election
from motet.core.operator.ensembles import changed_ensemble, expanded_epoch
from motet.core.operator.state import Phase, ShardControl
from motet.core.operator.writing import save
from motet.core.shardlog.messages import (
    AbortReconfigurationRequest,
    AbortReconfigurationResponse,
    CommitReconfigurationRequest,
    CommitReconfigurationResponse,
    PrepareReconfigurationRequest,
    PrepareReconfigurationResponse,
    ReconfigurationOp,
    Refusal,
    Refused,
    ShardMessage,
    SnapshotRequest,
    SnapshotResponse,
)
from motet.core.streams.cluster_messages import Reconfiguration, ReconfigurationPhase, ShardStatus
from motet.ids import Epoch, LogName, NodeId

_UNANSWERABLE = (Refusal.NOT_LEADER, Refusal.RECONFIGURING, Refusal.NOT_PREPARED)


def start_reconfiguration(
    core: Core,
    control: ShardControl,
    op: ReconfigurationOp,
    *,
    old_node: NodeId | None = None,
    new_node: NodeId | None = None,
    is_move: bool = False,
) -> None:
    """Write PREPARE (C1). Whether it may be done has been checked before."""
    known = control.known
    assert known.status is ShardStatus.STEADY_STATE
    assert known.leader is not None
    assert old_node != known.leader
    change = Reconfiguration(op, ReconfigurationPhase.PREPARE, old_node, new_node, 0)
    factor = len(changed_ensemble(known.ensemble, change))
    change = msgspec.structs.replace(change, replication_factor=factor)
    core.note_shard(op.value, control, f"{old_node or '-'} > {new_node or '-'}")
    control.is_move, control.prepared = is_move, None
    control.move_ns = core.in_ms(core.config.step_ms)
    metadata = msgspec.structs.replace(
        known,
        epoch=Epoch(known.epoch + 1),
        status=ShardStatus.RECONFIGURATION,
        reconfiguration=change,
        removed_nodes=tuple(node for node in known.removed_nodes if node != new_node),
    )
    save(core, control, metadata, Phase.PREPARE)


def _change(control: ShardControl) -> Reconfiguration:
    change = control.known.reconfiguration
    assert change is not None
    return change


def _leader(control: ShardControl) -> NodeId:
    leader = control.known.leader
    assert leader is not None
    return leader


def _is_gone(core: Core, control: ShardControl, node: NodeId) -> bool:
    """Dead, or in another life than when the change began."""
    life = control.incarnations.get(node, 0)
    return core.is_dead(node) or core.incarnation(node) not in (0, life)


def _is_stuck(core: Core, control: ShardControl) -> bool:
    """The leader is gone or silent: an election has begun (C4)."""
    leader = _leader(control)
    if _is_gone(core, control, leader):
        start_election(core, control, f"{leader} is gone")
    elif core.now_ns >= control.until_ns:
        start_election(core, control, f"{leader} does not answer")
    else:
        return False
    return True


# PREPARE


def keep_preparing(core: Core, control: ShardControl) -> None:
    change = _change(control)
    if _is_stuck(core, control) or _is_new_node_gone(core, control):
        return
    if core.due(control.retry, doubles=False):
        request = PrepareReconfigurationRequest(
            LogName(control.shard), control.epoch, change.op, change.old_node, change.new_node
        )
        core.send(_leader(control), request)


def on_prepared(
    core: Core, control: ShardControl, sender: NodeId, message: PrepareReconfigurationResponse
) -> None:
    change = control.known.reconfiguration
    if control.phase is not Phase.PREPARE or sender != control.known.leader or change is None:
        core.drop("not_waiting_to_be_prepared")
    elif message.op is not change.op or (change.new_node is None) != (message.snapshot is None):
        core.drop("prepared_something_else")
    elif change.new_node is None:
        _save_commit(core, control, change)
    else:
        control.prepared = message
        core.enter(control, Phase.SNAPSHOT)


def _save_commit(core: Core, control: ShardControl, change: Reconfiguration) -> None:
    """C1."""
    metadata = msgspec.structs.replace(
        control.known,
        reconfiguration=msgspec.structs.replace(change, phase=ReconfigurationPhase.COMMIT),
    )
    save(core, control, metadata, Phase.COMMIT)


# SNAPSHOT


def keep_snapshot(core: Core, control: ShardControl) -> None:
    change, prepared = _change(control), control.prepared
    assert change.new_node is not None
    assert prepared is not None
    assert prepared.snapshot is not None
    _look_at_progress(core, control, change.new_node)
    if _is_gone(core, control, _leader(control)):
        start_election(core, control, f"{_leader(control)} is gone")
    elif _is_new_node_gone(core, control):
        return
    elif core.now_ns >= control.until_ns:
        abort(core, control, f"{change.new_node} has not installed its snapshot")
    elif core.due(control.retry):
        life = control.incarnations.get(change.new_node, 0)
        request = SnapshotRequest(
            LogName(control.shard), control.epoch, prepared.snapshot, prepared.commit_index, life
        )
        core.send(change.new_node, request)


def _look_at_progress(core: Core, control: ShardControl, new_node: NodeId) -> None:
    """C6, by what the node says in its heartbeat answers."""
    node = core.node(new_node)
    report = None if node is None else node.reports.get(control.shard)
    if report is not None and report.epoch == control.epoch and report.fetched > control.fetched:
        control.fetched = report.fetched
        control.until_ns = core.in_ms(core.config.snapshot_ms)


def _is_new_node_gone(core: Core, control: ShardControl) -> bool:
    """C3."""
    new_node = _change(control).new_node
    if new_node is None or not _is_gone(core, control, new_node):
        return False
    abort(core, control, f"{new_node} is gone")
    return True


def on_snapshot_installed(
    core: Core, control: ShardControl, sender: NodeId, message: SnapshotResponse
) -> None:
    change = control.known.reconfiguration
    if control.phase is not Phase.SNAPSHOT or change is None or sender != change.new_node:
        core.drop("not_waiting_for_a_snapshot")
        return
    change = msgspec.structs.replace(change, new_node_head_index=message.head_index)
    _save_commit(core, control, change)


# COMMIT


def keep_committing(core: Core, control: ShardControl) -> None:
    change = _change(control)
    if _is_stuck(core, control) or not core.due(control.retry, doubles=False):
        return
    request = CommitReconfigurationRequest(
        LogName(control.shard),
        control.epoch,
        change.op,
        change.replication_factor,
        change.old_node,
        change.new_node,
        change.new_node_head_index,
    )
    core.send(_leader(control), request)


def on_committed(
    core: Core, control: ShardControl, sender: NodeId, message: CommitReconfigurationResponse
) -> None:
    known, change = control.known, control.known.reconfiguration
    if control.phase is not Phase.COMMIT or sender != known.leader or change is None:
        core.drop("not_waiting_for_a_commit")
        return
    named = (message.op, message.old_node, message.new_node)
    if named != (change.op, change.old_node, change.new_node):
        core.drop("committed_something_else")
        return
    core.note_shard("reconfigured", control, change.op.value)
    ensemble = changed_ensemble(known.ensemble, change)
    metadata = msgspec.structs.replace(
        known,
        status=ShardStatus.STEADY_STATE,
        ensemble=ensemble,
        replication_factor=len(ensemble),
        reconfiguration=None,
        removed_nodes=removed_nodes(known, ensemble, known.ensemble),  # C5
        expanded_epoch=expanded_epoch(known),
    )
    save(core, control, metadata, Phase.STEADY)


# ABORT


def abort(core: Core, control: ShardControl, why: str) -> None:
    """Give up a change that was only prepared (C3)."""
    assert _change(control).phase is ReconfigurationPhase.PREPARE, "C3"
    core.note_shard(f"aborts_{_change(control).op.value}", control, why)
    core.enter(control, Phase.ABORT)


def keep_aborting(core: Core, control: ShardControl) -> None:
    if not _is_stuck(core, control) and core.due(control.retry, doubles=False):
        core.send(
            _leader(control), AbortReconfigurationRequest(LogName(control.shard), control.epoch)
        )


def on_aborted(
    core: Core, control: ShardControl, sender: NodeId, _message: AbortReconfigurationResponse
) -> None:
    known, change = control.known, control.known.reconfiguration
    if control.phase is not Phase.ABORT or sender != known.leader or change is None:
        core.drop("not_waiting_for_an_abort")
        return
    core.note_shard("aborted", control, change.op.value)
    new = () if change.new_node is None else (change.new_node,)
    metadata = msgspec.structs.replace(
        known,
        status=ShardStatus.STEADY_STATE,
        reconfiguration=None,
        removed_nodes=removed_nodes(known, known.ensemble, new),  # C5
    )
    save(core, control, metadata, Phase.STEADY)


# Refusals


def on_step_refused(core: Core, control: ShardControl, sender: NodeId, message: Refused) -> None:
    """What a leader or a new node would not do."""
    change = control.known.reconfiguration
    assert change is not None
    if message.request == _name(SnapshotRequest) and sender == change.new_node:
        _on_snapshot_refused(core, control, message)
    elif sender != control.known.leader:
        core.drop("refused_by_a_stranger")
    elif message.why is Refusal.UNSAFE and control.phase is Phase.COMMIT:
        control.until_ns = core.in_ms(core.config.step_ms)  # C2: it answers
        if core.now_ns >= control.unsafe_ns:
            start_election(core, control, "it stays unsafe")
    elif message.why is Refusal.UNSAFE and control.phase is Phase.PREPARE:
        abort(core, control, f"{sender} refuses it: {message.what}")
    elif message.why in _UNANSWERABLE:
        start_election(core, control, f"{sender} says {message.why.value}")


def _on_snapshot_refused(core: Core, control: ShardControl, message: Refused) -> None:
    if control.phase is not Phase.SNAPSHOT:
        return
    if message.why is Refusal.SNAPSHOT_GONE:
        core.enter(control, Phase.PREPARE)  # the leader offers another one
        control.retry.next_ns = core.in_ms(core.config.retry_ms)
    else:
        abort(core, control, f"the snapshot was refused: {message.why.value}")


def _name(kind: type[ShardMessage]) -> str:
    return kind.__name__


KEEP: dict[Phase, Callable[[Core, ShardControl], None]] = {
    Phase.PREPARE: keep_preparing,
    Phase.SNAPSHOT: keep_snapshot,
    Phase.COMMIT: keep_committing,
    Phase.ABORT: keep_aborting,
}


def begin_step(core: Core, control: ShardControl) -> None:
    """A change has entered one of these phases."""
    config, phase = core.config, control.phase
    control.until_ns = core.in_ms(config.snapshot_ms if phase is Phase.SNAPSHOT else config.step_ms)
    if phase is Phase.SNAPSHOT:
        control.fetched = 0
    elif phase is Phase.COMMIT:
        control.unsafe_ns = core.in_ms(config.unsafe_ms)
    KEEP[phase](core, control)
