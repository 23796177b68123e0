"""After the storm: every shard must come to rest, or there must be a good reason why it cannot.

At rest means: the store says steady state; its leader leads and serves; every other node of the ensemble
follows it, with the same log and the same state; nobody else has anything of the shard; and nothing is left
of streams that were deleted.

Excuses, each a coverage mark: ``calm_too_few_members``, fewer members are left than an election needs.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.metadata.definitions import decode_stream_definition, shard_names
from motet.core.metadata.paths import STREAMS
from motet.core.operator.ensembles import fencing_ensemble
from motet.core.shardlog.state import Status
from motet.core.streams.cluster_messages import ShardMetadata, ShardStatus
from motet.core.streams.node import DataNode
from motet.ids import NodeId, ShardName
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.storms.streams_checks import Watch
from motet.verify.storms.streams_faults import Atlas
from motet.verify.storms.streams_store import Store

patience_ms = 40_000
look_every_events = 50


class Calm:
    """How things stand since the storm is over."""

    def __init__(
        self, world: World, watch: Watch, store: Store, atlas: Atlas, hosts: dict[NodeId, Host]
    ) -> None:
        self._world = world
        self._watch = watch
        self._store = store
        self._atlas = atlas
        self._hosts = hosts
        self._until_ns = world.virtual.elapsed_ns + patience_ms * NS_PER_MS
        self._looked = 0
        for node in world.nodes.values():
            node.time.skew_ns = 0  # somebody has set the clocks

    @property
    def is_out_of_patience(self) -> bool:
        return self._world.virtual.elapsed_ns >= self._until_ns

    def is_time_to_look(self) -> bool:
        """Looking at everything takes longer than a step."""
        if self._world.events < self._looked + look_every_events:
            return False
        self._looked = self._world.events
        return True

    def unrest(self) -> str | None:
        """What is not at rest yet; None when everything is."""
        wanted: dict[ShardName, None] = {}
        for data in self._store.below(STREAMS):
            definition = decode_stream_definition(data)
            if definition.is_deleted:
                return f"{definition.name} is still there"
            wanted.update(dict.fromkeys(shard_names(definition)))
        if set(wanted) != set(self._watch.metadata):
            return f"shards {sorted(self._watch.metadata)} of {sorted(wanted)}"
        for metadata in self._watch.metadata.values():
            why = self._unrest_of(metadata)
            if why is not None:
                return f"{metadata.shard}: {why}"
        return self._strangers()

    def _unrest_of(self, metadata: ShardMetadata) -> str | None:
        if metadata.status is not ShardStatus.STEADY_STATE or metadata.leader is None:
            return f"{metadata.status.value} in epoch {metadata.epoch}"
        if metadata.removed_nodes:
            return f"{metadata.removed_nodes} have to be cleaned up"
        leader = self._watch.replica(metadata.leader, metadata.shard)
        if leader is None or not leader.is_serving or leader.epoch != metadata.epoch:
            return f"{metadata.leader} does not serve"
        if leader.commit_index != leader.head or leader.applied_index != leader.head:
            return f"{leader.commit_index} of {leader.head} is committed"
        for node in metadata.ensemble:
            if node == metadata.leader:
                continue
            replica = self._watch.replica(node, metadata.shard)
            if replica is None or replica.status is not Status.FOLLOWER:
                return f"{node} is {None if replica is None else replica.status.value}"
            if replica.leader != metadata.leader or replica.epoch != leader.epoch:
                return f"{node} follows {replica.leader} in epoch {replica.epoch}"
            if replica.head != leader.head or replica.applied_index != leader.head:
                return f"{node} ends at {replica.head}, applied {replica.applied_index}"
            if not replica.core.state.is_member:
                return f"{node} is not a member"
            if replica.machine.fingerprint() != leader.machine.fingerprint():
                return f"{node} has another state"
        return None

    def _strangers(self) -> str | None:
        for node, host in self._hosts.items():
            assert isinstance(host.machine, DataNode)
            for shard in host.machine.shards.replicas:
                metadata = self._watch.metadata.get(shard)
                if metadata is None or node not in metadata.ensemble:
                    return f"{node} holds {shard}"
        return None

    # Reasons

    def excuse(self) -> str | None:
        """Why it may never come to rest; None if there is no reason."""
        if any(self._has_too_few_members(each) for each in self._watch.metadata.values()):
            return "calm_too_few_members"
        return None

    def _has_too_few_members(self, metadata: ShardMetadata) -> bool:
        ensemble = fencing_ensemble(metadata)
        whole = [node for node in ensemble if self._atlas.is_whole(node, metadata.shard)]
        return len(whole) < len(ensemble) // 2 + 1

    def describe(self) -> str:
        """Where everybody stands."""
        lines = [f"{each}" for each in self._watch.metadata.values()]
        for node, host in self._hosts.items():
            assert isinstance(host.machine, DataNode)
            for shard, replica in host.machine.shards.replicas.items():
                state = replica.core.state
                words = [node, shard, state.status.value, f"epoch {state.epoch}"]
                words += [f"head {replica.head}", f"commit {state.commit_index}"]
                words += [f"applied {state.applied}", "member" if state.is_member else "no member"]
                flags = {
                    "damaged": state.is_damaged,
                    "installing": state.installing is not None,
                    "full": state.is_disk_full,
                    "reconfiguring": state.reconfiguring is not None,
                }
                words += [flag for flag, is_set in flags.items() if is_set]
                words += [f"{c.node}:{c.state.value}:{c.confirmed}" for c in state.cursors.values()]
                lines.append(" ".join(words))
        return "; ".join(lines)
