"""A peer that knows the cluster key and says what no node can mean: real nodes live, serve, start again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from pathlib import Path

import msgspec
import pytest
from tests.fuzz.hostile import NONSENSE, Forger

import motet
from motet.core.clock.cluster_time import PingClock, PongClock
from motet.core.clock.hlc import END
from motet.core.machine import Message
from motet.core.shardlog.entry import NO_ENTRY
from motet.core.shardlog.messages import (
    AbortReconfigurationRequest,
    AddEntryResponse,
    ShardMessage,
)
from motet.core.streams.cluster_messages import OperatorRequest
from motet.core.streams.messages import DataCall
from motet.core.vsr.messages import Ping, ReplicaMessage, StartViewChange, VsrCall
from motet.format.frame import Frame, FrameKind
from motet.ids import Address, Epoch, LogName, Op, ReplicaIndex, ShardName, View
from motet.node.config import ROLES
from motet.node.hosts import OperatorInbox
from motet.node.keeper import cluster_id
from motet.real.hello import ClusterKey
from motet.real.network import TcpNetwork
from motet.testing.local_cluster import LocalCluster

NODES = 3
LIAR = 2
CLUSTER = "motet"
MESSAGES = 600
patience_s = 60.0

DOORS: dict[FrameKind, object] = {
    FrameKind.VSR: VsrCall,
    FrameKind.DATA: DataCall,
    FrameKind.OPERATOR: OperatorInbox,
    FrameKind.TIME: PingClock | PongClock,
}


def works(cluster: LocalCluster, value: int) -> None:
    """A transaction over several shards is committed and read back; the keeper has a new stream."""
    with motet.connect(cluster.endpoints) as db:
        with db.transaction() as txn:
            for key in ("a", "b", "c", "d"):
                txn.change("things", key=key, op="update", row={"value": value})
        with db.transaction() as txn:
            found = txn.get("things", "d")
            assert found is not None
            assert found.row == {"value": value}
        db.create_stream(f"new-{value}", shards=1, replicas=2)
        db.stream(f"new-{value}").append(key="k", value=b"v")


class Liar:
    """In the place of a node that is down."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.peers = {
            Address(f"n{i}"): cluster.endpoint(i).rpartition(":") for i in range(NODES) if i != LIAR
        }
        self._key = ClusterKey((folder / "cluster-key").read_text().strip())
        dice = random.Random(7)
        self.forgers = {kind: Forger(union, dice, NONSENSE) for kind, union in DOORS.items()}
        self._decoders = {
            kind: msgspec.msgpack.Decoder(union).decode for kind, union in DOORS.items()
        }
        #: the shards that the nodes have spoken of
        self.shards: dict[ShardName, Epoch] = {}

    async def speak(self) -> None:
        network = TcpNetwork(
            Address(f"n{LIAR}"),
            cluster=CLUSTER,
            listen=None,
            peers={peer: (host, int(port)) for peer, (host, _, port) in self.peers.items()},
            wake=lambda: None,
            key=self._key,
            incarnation=time.time_ns(),
        )
        await network.start()
        try:
            await self._say_all(network)
        finally:
            await network.stop()

    async def _say_all(self, network: TcpNetwork) -> None:
        for peer in self.peers:
            network.send(peer, _frame(FrameKind.VSR, _named_lies()[0]))
        network.flush()
        async with asyncio.timeout(patience_s):
            while not all(network.is_connected(peer) for peer in self.peers):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        for lie in _named_lies():
            self._send(network, FrameKind.VSR, lie)
        for number in range(MESSAGES):
            self._hear(network)
            kind = list(DOORS)[number % len(DOORS)]
            message = self.forgers[kind].forge()
            # What a client may ask of an operator is no nonsense: to turn the clock off, to delete a stream.
            if message is not None and not isinstance(message, OperatorRequest):
                self._send(network, kind, _in_our_name(message))
            for shard, epoch in self.shards.items():
                if number % 100 == 50:
                    self._send(network, FrameKind.DATA, _clock_lie(shard, epoch))
                    self._send(network, FrameKind.DATA, _epoch_lie(shard))
            network.flush()
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.2)  # what is queued leaves; that it arrived is seen in the logs

    def _send(self, network: TcpNetwork, kind: FrameKind, message: Message) -> None:
        for peer in self.peers:
            network.send(peer, _frame(kind, message))

    def _hear(self, network: TcpNetwork) -> None:
        """What the nodes say to the one whose place we have: to be changed a little, and said back."""
        for delivery in network.take(1_000):
            frame = delivery.frame
            decode = self._decoders.get(FrameKind(frame.kind))
            if decode is None:
                continue
            with contextlib.suppress(msgspec.MsgspecError):
                message = decode(frame.body)
                self.forgers[FrameKind(frame.kind)].hear(message)
                if isinstance(message, ShardMessage):
                    self.shards[message.shard] = message.epoch


def _frame(kind: FrameKind, message: Message) -> Frame:
    return Frame(kind, 0, msgspec.msgpack.encode(message))


def _named_lies() -> list[Message]:
    cluster, own = cluster_id(CLUSTER), ReplicaIndex(LIAR)
    return [
        StartViewChange(cluster, own, View(2**64 - 1)),
        StartViewChange(cluster, own, View(2**63)),
        Ping(cluster, own, View(0), 0, 0, Op(0), b"other checkpoint"),
    ]


def _clock_lie(shard: ShardName, epoch: Epoch) -> Message:
    return AddEntryResponse(LogName(shard), epoch, NO_ENTRY, 0, END)


def _epoch_lie(shard: ShardName) -> Message:
    return AbortReconfigurationRequest(LogName(shard), Epoch(2**63))


def _in_our_name(message: Message) -> Message:
    if isinstance(message, ReplicaMessage):
        return msgspec.structs.replace(message, replica=ReplicaIndex(LIAR))
    return message


@pytest.mark.timeout(300)
def test_nodes_outlive_a_peer_that_talks_nonsense(tmp_path: Path) -> None:
    with LocalCluster(NODES, tmp_path, roles=ROLES) as cluster:
        with motet.connect(cluster.endpoints) as db:
            db.create_stream("things", shards=4, replicas=3)
        works(cluster, 1)
        others = [i for i in range(NODES) if i != LIAR]
        lives = [cluster.pid(i) for i in others]
        cluster.kill(LIAR)
        liar = Liar(cluster, tmp_path)
        asyncio.run(liar.speak())
        works(cluster, 2)
        assert [cluster.pid(i) for i in others] == lives, "nobody had to be started again"
        for i in others:
            log = cluster.log(i)
            assert "vsr_out_of_bounds" in log
            assert "18446744073709551615" in log, "the view that nobody gets to"
            assert "shards_out_of_bounds" in log
            assert "broke a rule" not in log
        cluster.restart(LIAR)
        works(cluster, 3)
        for i in range(NODES):
            cluster.kill(i)
        for i in range(NODES):
            cluster.restart(i, wait=False)
        for i in range(NODES):
            cluster.wait_ready(i)
        works(cluster, 4)
        assert all("broke a rule" not in cluster.log(i) for i in range(NODES))
