"""Operators with puppets around them, and a watch over everything that operators say."""

from __future__ import annotations

from motet.core.machine import Send
from motet.core.metadata.messages import METADATA
from motet.core.metadata.paths import SHARDS, shard_path
from motet.core.operator.operator import Operator
from motet.core.operator.state import ShardControl
from motet.core.shardlog.messages import (
    BecomeLeaderRequest,
    DeleteShardRequest,
    FenceRequest,
    PrepareReconfigurationRequest,
    ShardMessage,
)
from motet.core.streams.cluster_messages import ShardMetadata, decode_metadata
from motet.ids import Address, Epoch, LogName, NodeId, ShardName
from motet.testing.bench_network import Line
from motet.testing.script import parse_command
from motet.testing.scripts.operator import OperatorPart
from motet.testing.scripts.operator_bench import OperatorBench
from motet.testing.scripts.operator_puppets import PuppetKeeper, PuppetNode, PuppetReplica

SHARD = LogName(ShardName("0000000000000001.0"))


class WatchedBench(OperatorBench):
    """Checks what operators send while it is sent."""

    def __init__(self) -> None:
        super().__init__()
        #: who was told to lead a shard in an epoch, and with how many replicas
        self.leaders: dict[tuple[ShardName, Epoch], tuple[Address, int]] = {}
        #: the operator that fenced, or prepared, in an epoch
        self.owners: dict[tuple[ShardName, Epoch], Address] = {}
        self.metadata: dict[ShardName, ShardMetadata] = {}
        self.told_by_operators: list[tuple[Address, ShardMessage]] = []

    def _sent(self, sender: Address, send: Send) -> list[Line]:
        message = send.message
        self._look_at_keeper()
        if sender.startswith("o") and isinstance(message, ShardMessage):
            self._check(sender, send.to, message)
        return super()._sent(sender, send)

    def _check(self, sender: Address, to: Address, message: ShardMessage) -> None:
        self.told_by_operators.append((to, message))
        stored = self.metadata.get(message.shard)
        if stored is not None:
            assert message.epoch <= stored.epoch, (
                f"{message} is sent before the store has its epoch"
            )
        place = (message.shard, message.epoch)
        if isinstance(message, FenceRequest | PrepareReconfigurationRequest):
            is_raise = (
                stored is not None and stored.epoch == message.epoch and stored.leader is None
            )
            if is_raise or isinstance(message, PrepareReconfigurationRequest):
                owner = self.owners.setdefault(place, sender)
                assert owner == sender, f"{owner} and {sender} both own {place}"
        if isinstance(message, BecomeLeaderRequest):
            told = (to, message.replication_factor)
            assert self.leaders.setdefault(place, told) == told, f"two leaders in {place}"
            followers = [node for node, _ in message.follower_map]
            assert NodeId(to) not in followers, "ValidMessages"
            assert len(followers) < message.replication_factor
        if isinstance(message, DeleteShardRequest) and stored is not None:
            deleting = stored.status.value == "deleting"
            is_late = message.epoch < stored.epoch
            assert deleting or is_late or NodeId(to) not in stored.ensemble, (
                "a member is told to delete"
            )

    def _look_at_keeper(self) -> None:
        keeper = self.nodes[METADATA].machine
        if not isinstance(keeper, PuppetKeeper):
            return
        for name in keeper.tree.names(SHARDS):
            data = keeper.tree.get(f"{SHARDS}/{name}")
            if data is None or not name.startswith("0"):
                continue  # not of a stream that a script has created
            metadata = decode_metadata(data)
            old = self.metadata.get(metadata.shard)
            if old is None or metadata != old:
                _check_metadata(old, metadata)
                self.metadata[metadata.shard] = metadata


def _check_metadata(old: ShardMetadata | None, new: ShardMetadata) -> None:
    assert len(new.ensemble) == new.replication_factor == len(set(new.ensemble))
    assert new.leader is None or new.leader in new.ensemble, "LegalLeaderAndEnsemble"
    assert not set(new.ensemble) & set(new.removed_nodes)
    if old is None:
        return
    assert new.epoch >= old.epoch, "an epoch falls"
    assert new.is_new <= old.is_new
    changed = len(set(new.ensemble) ^ set(old.ensemble))
    assert changed <= 2, "more than one change at once"
    if changed:
        assert old.reconfiguration is not None
        assert old.reconfiguration.phase.value == "commit"
        assert new.status.value == "steady_state"


class WatchedPart(OperatorPart):
    """The commands of golden scripts, on a watched bench."""

    def __init__(self) -> None:
        super().__init__()
        self.bench: WatchedBench = WatchedBench()

    def do(self, *lines: str) -> list[str]:
        return [told for line in lines for told in self.run(parse_command(line, "test"))]

    def stored(self, shard: ShardName = SHARD) -> ShardMetadata:
        return decode_metadata(self._stored(shard_path(shard))[0])

    def replica(self, node: str, shard: ShardName = SHARD) -> PuppetReplica | None:
        machine = self.bench.node(node).machine
        if isinstance(machine, PuppetNode):
            return machine.state.replicas.get(shard)
        return self.disks[node].get(shard)

    def operator(self, name: str = "o1") -> Operator:
        machine = self.bench.node(name).machine
        assert isinstance(machine, Operator)
        return machine

    def control(self, name: str = "o1", shard: ShardName = SHARD) -> ShardControl:
        return self.operator(name).core.state.shards[shard]


def after(*lines: str) -> WatchedPart:
    """A cluster with which all this has been done."""
    part = WatchedPart()
    part.do(*lines)
    return part


def node(name: str) -> NodeId:
    return NodeId(name)
