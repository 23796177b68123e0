"""Nodes and operators with planted bugs: the real ones, with one rule of the protocol left out.

Most rules are functions of their own; a planted one takes the place of such a function for as long as the
machine takes a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from motet.core.machine import Effect, Event, Received, Write, WriteFailed, Written
from motet.core.operator import deletion, elections, ensembles, streams
from motet.core.operator.context import Core, OperatorConfig
from motet.core.operator.ensembles import Answers
from motet.core.operator.operator import Operator
from motet.core.operator.state import Definition
from motet.core.shardlog import quorum
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.entry import NO_ENTRY, EntryId, EpochRuns
from motet.core.shardlog.messages import CommitReconfigurationRequest, FenceResponse
from motet.core.streams.cluster_messages import CreateStream, DeleteStream, ShardMetadata
from motet.core.streams.node import DataNode
from motet.core.streams.shard import StreamShard
from motet.errors.operator import NotActive
from motet.ids import Epoch, NodeId, Offset, WriteId
from motet.verify.plants import kind_of
from motet.verify.storms.planting import Planted, instead

# Operators


class PlantedOperator(Operator):
    """An operator with another function in the place of a real one."""

    #: under which name, what
    planted: tuple[str, object]

    def step(self, event: Event) -> list[Effect]:
        with instead(elections, *self.planted), instead(ensembles, *self.planted):
            return super().step(event)


def _by_minority(metadata: ShardMetadata, answers: Answers) -> bool:
    asked = ensembles.fencing_ensemble(metadata)
    members = [node for node in asked if node in answers and answers[node].is_member]
    return len(members) >= max(1, len(asked) // 2)


class ElectsByMinority(PlantedOperator):
    """Half of the nodes are enough to elect."""

    planted = ("is_decided", _by_minority)


def _lowest(metadata: ShardMetadata, answers: Answers) -> list[NodeId]:
    final = ensembles.final_ensemble(metadata)
    members = [node for node in final if node in answers and answers[node].is_member]
    lowest = min((answers[node].head_index for node in members), default=None)
    return [node for node in members if answers[node].head_index == lowest]


class ElectsAnybody(PlantedOperator):
    """Whoever has answered may lead, with the lowest head above all."""

    planted = ("candidates", _lowest)


def _without_new_node(metadata: ShardMetadata) -> tuple[NodeId, ...]:
    return metadata.ensemble


class DoesNotFenceNewNode(PlantedOperator):
    """Only the ensemble that the store names is fenced."""

    planted = ("fencing_ensemble", _without_new_node)


def _old_factor(metadata: ShardMetadata) -> int:
    return metadata.replication_factor


class KeepsFactor(PlantedOperator):
    """A leader is told the replication factor that the store names, whatever has stalled."""

    planted = ("final_factor", _old_factor)


class CountsTheWiped(Operator):
    """Who has lost its disk counts in an election like everybody else."""

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received) and isinstance(event.message, FenceResponse):
            message = msgspec.structs.replace(event.message, is_member=True)
            event = Received(event.now, event.sender, message)
        return super().step(event)


# Nodes


def _committed_directly(
    positions: Sequence[Offset], replication_factor: int, _epoch: Epoch, runs: EpochRuns
) -> EntryId:
    offset = quorum.held_by_majority(positions, replication_factor)
    return NO_ENTRY if offset < runs.base.offset else runs.id_at(offset)


class CommitsOldEntries(Planted):
    """Entries of earlier epochs are committed by counting, too."""

    planted = (quorum, "committed", _committed_directly)


def _never_cut(runs: EpochRuns, follower_head: EntryId) -> EntryId | None:
    return None if follower_head.offset < runs.base.offset else follower_head


class DoesNotTruncate(Planted):
    """A follower is taken to have the leader's entries as far as its log goes."""

    planted = (quorum, "truncation_point", _never_cut)


class LetsCommitFall(DataNode):
    """When an ensemble changes, what is committed is worked out anew, from nothing."""

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        if isinstance(event, Received) and isinstance(event.message, CommitReconfigurationRequest):
            replica = self.shards.replica(event.message.shard)
            if replica is not None and replica.core.is_leader:
                state = replica.core.state
                positions = [each.confirmed for each in state.cursors.values() if each.is_attached]
                positions.append(state.log.durable)
                state.commit_index = quorum.committed(
                    positions, state.replication_factor, state.epoch, state.log.runs
                )
        return effects


class Hurries(DataNode):
    """Entries count as durable as soon as their write has begun."""

    def __init__(self, own: NodeId, config: ShardlogConfig | None = None) -> None:
        super().__init__(own, config)
        self._told: dict[WriteId, None] = {}

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Written | WriteFailed) and event.write in self._told:
            return []  # it has been told already, whatever became of it
        effects: list[Effect] = []
        events: list[Event] = [event]
        for each in events:  # grows while it is walked through
            for effect in super().step(each):
                effects.append(effect)
                if isinstance(effect, Write):
                    self._told[effect.id] = None
                    events.append(Written(event.now, effect.id))
        return effects


class ReadsAlone(DataNode):
    """A leader answers a read without asking whether it still is the leader."""

    def step(self, event: Event) -> list[Effect]:
        for replica in self.shards.replicas.values():
            state = replica.core.state
            state.confirmed_round = max(state.confirmed_round, state.round)
        effects = super().step(event)
        for replica in self.shards.replicas.values():
            replica.core.state.confirmed_round = replica.core.state.round + 1
        return effects


class ForgetsTokens(DataNode):
    """A new leader does not know which tokens were used before it."""

    def step(self, event: Event) -> list[Effect]:
        led = {shard: each.core.is_leader for shard, each in self.shards.replicas.items()}
        effects = super().step(event)
        for shard, replica in self.shards.replicas.items():
            if replica.core.is_leader and not led.get(shard, False):
                assert isinstance(replica.machine, StreamShard)
                replica.machine.state.producers = {}
        return effects


BLIND_STORE = "no-compare-and-set"
"""Metadata is written whatever stands there: the store of the simulation does that."""


def data_node(plant: str | None, own: NodeId, config: ShardlogConfig) -> Callable[[], DataNode]:
    """What makes the data node of each incarnation."""
    kind = kind_of("streams", plant, DataNode)
    return lambda: kind(own, config)


def operator(plant: str | None, config: OperatorConfig, own: NodeId) -> Operator:
    """An operator of this incarnation."""
    return kind_of("streams", plant, Operator)(config, own)


# Operators that do what they are asked whenever that comes, and for whatever has that name by then.


def _any_fence(core: Core, _message: CreateStream) -> int:
    if core.state.fence is None:
        raise NotActive("it has only just become the active operator")
    return core.state.fence


class CreatesLate(Operator):
    """A stream is created, whatever was deleted since that was asked."""

    def step(self, event: Event) -> list[Effect]:
        with instead(streams, "_checked_fence", _any_fence):
            return super().step(event)


def _by_name(core: Core, message: DeleteStream) -> Definition | None:
    return core.state.definitions.get(message.name)


class DeletesByName(Operator):
    """A stream is deleted because it has the name of the one that is meant."""

    def step(self, event: Event) -> list[Effect]:
        with instead(deletion, "_meant", _by_name):
            return super().step(event)
