"""Changes of an ensemble that stall: how far each had come, and what came of it.

Seen from outside: what operators write into the store, what they send, and what leaders note. A change stalls
when its operator has to ask for a step again, or an election takes it over; each phase of each kind of change
is to be seen with each end that it can have.

======================================  ============================================================
mark                                    what has happened
======================================  ============================================================
stalled_K_prepare_went_on               asked again, and then prepared
stalled_K_commit_went_on                asked again, and then done
stalled_K_prepare_aborted               called off by its operator (a contraction never is)
stalled_K_prepare_unheard_dropped       an election found it before the leader had heard of it,
stalled_K_prepare_prepared_dropped      or after: the ensemble is the old one
stalled_K_commit_prepared_completed     an election found it before the leader had done it,
stalled_K_commit_committed_completed    or after: the ensemble is the new one (of a contraction:
                                        ``rolled_back``, the ensemble is the old one)
======================================  ============================================================

Resolved  an election ends a change as this table says, whatever the leader had done.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import Note
from motet.core.operator.ensembles import changed_ensemble
from motet.core.shardlog.messages import (
    CommitReconfigurationRequest,
    PrepareReconfigurationRequest,
    ReconfigurationOp,
    ShardMessage,
    SnapshotRequest,
)
from motet.core.streams.cluster_messages import (
    Reconfiguration,
    ReconfigurationPhase,
    ShardMetadata,
    ShardStatus,
)
from motet.ids import Epoch, NodeId, ShardName
from motet.sim.world import World

STEPS = (PrepareReconfigurationRequest, SnapshotRequest, CommitReconfigurationRequest)
_KINDS = tuple(ReconfigurationOp)


def _ends(op: ReconfigurationOp) -> list[str]:
    does = "rolled_back" if op is ReconfigurationOp.CONTRACT else "completed"
    ends = ["prepare_went_on", "commit_went_on"]
    ends += ["prepare_unheard_dropped", "prepare_prepared_dropped"]
    ends += [f"commit_prepared_{does}", f"commit_committed_{does}"]
    return ends if op is ReconfigurationOp.CONTRACT else [*ends, "prepare_aborted"]


STALL_MARKS = tuple(f"stalled_{op.value}_{end}" for op in _KINDS for end in _ends(op))


class Taken(msgspec.Struct, frozen=True):
    """A change that an election has found."""

    change: Reconfiguration
    ensemble: tuple[NodeId, ...]
    #: unheard, prepared or committed, by the leader
    stage: str


class Stalls:
    """Follows all changes of all ensembles."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: how far the leader went with a change of its ensemble in that epoch
        self._stages: dict[tuple[ShardName, Epoch], str] = {}
        #: how often each step was asked for
        self._asked: dict[tuple[ShardName, Epoch, str], int] = {}
        #: found by an election that has no end yet
        self._taken: dict[ShardName, Taken] = {}

    def noted(self, note: Note, epoch: Epoch) -> None:
        """A leader has taken a step."""
        for stage in ("prepared", "committed"):
            if note.what.startswith(f"shard_{stage}_"):
                self._stages[ShardName(note.detail.partition(" ")[0]), epoch] = stage

    def sent(self, message: ShardMessage) -> None:
        """An operator has asked for a step, or a leader has offered a snapshot."""
        if isinstance(message, STEPS):
            key = (message.shard, message.epoch, type(message).__name__)
            self._asked[key] = self._asked.get(key, 0) + 1

    def stored(self, before: ShardMetadata, after: ShardMetadata) -> None:
        """Somebody has written metadata."""
        shard, change = after.shard, before.reconfiguration
        if after.status is ShardStatus.DELETING:
            self._taken.pop(shard, None)
        elif before.status is ShardStatus.RECONFIGURATION and change is not None:
            if after.status is ShardStatus.ELECTION:
                stage = self._stages.get((shard, before.epoch), "unheard")
                self._taken[shard] = Taken(change, before.ensemble, stage)
            elif after.status is not before.status or after.reconfiguration != change:
                self._note_own_end(before, after, change)
        elif after.status is ShardStatus.STEADY_STATE and before.status is ShardStatus.ELECTION:
            taken = self._taken.pop(shard, None)
            if taken is not None:
                self._check_resolved(taken, after)

    def _note_own_end(
        self, before: ShardMetadata, after: ShardMetadata, change: Reconfiguration
    ) -> None:
        """Its operator has taken it a phase further, or called it off."""
        phase = change.phase
        if phase is ReconfigurationPhase.PREPARE and after.reconfiguration is None:
            self._world.mark(f"stalled_{change.op.value}_prepare_aborted")
            return
        is_prepare = phase is ReconfigurationPhase.PREPARE
        steps = STEPS[:2] if is_prepare else STEPS[2:]
        asked = [self._asked.get((before.shard, before.epoch, s.__name__), 0) for s in steps]
        if max(asked) > 1:
            self._world.mark(f"stalled_{change.op.value}_{phase.value}_went_on")

    def _check_resolved(self, taken: Taken, after: ShardMetadata) -> None:
        change, stage = taken.change, taken.stage
        is_dropped = change.phase is ReconfigurationPhase.PREPARE
        is_back = change.op is ReconfigurationOp.CONTRACT
        end = "dropped" if is_dropped else "rolled_back" if is_back else "completed"
        wanted = taken.ensemble
        if end == "completed":
            wanted = changed_ensemble(taken.ensemble, change)
        if set(after.ensemble) != set(wanted):
            what = f"{after.shard}: {change} of {taken.ensemble}, now {after.ensemble}"
            self._world.violated("Resolved", what)
            return
        self._world.mark(f"stalled_{change.op.value}_{change.phase.value}_{stage}_{end}")
