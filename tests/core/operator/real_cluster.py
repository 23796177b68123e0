"""Operators with real data nodes: the cores together, only the store is a puppet."""

from __future__ import annotations

from collections.abc import Callable

from tests.core.operator.clusters import SHARD, WatchedBench, WatchedPart

from motet.core.clock.hlc import ZERO
from motet.core.machine import NS_PER_MS, Effect, Event, Machine
from motet.core.metadata.paths import shard_path
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import Status
from motet.core.streams.change import Token
from motet.core.streams.entries import Chunk, decode_records
from motet.core.streams.messages import (
    AppendRecords,
    ReadRecords,
    RecordsAppended,
    RecordsRead,
)
from motet.core.streams.node import DataNode
from motet.format.record_block import decode_block, encode_block
from motet.ids import Address, LogName, NodeId, Offset, RequestId, ShardName
from motet.testing.bench_node import BenchDisk, BenchNode
from motet.testing.part import verb

WRITER = Address("writer")
WALL_MS = 1_700_000_000_000
SMALL = ShardlogConfig(
    segment_bytes=1 << 16, preallocate_bytes=1 << 14, snapshot_every_bytes=1 << 12
)


class PlainNode(BenchNode):
    """Checks the invariants of a machine at each step; a copy at each step would take most of the time."""

    def step(self, event: Event) -> list[Effect]:
        machine = self.running()
        effects = machine.step(event)
        broken = [f"{each.invariant} {each.what}" for each in machine.invariants()]
        assert not broken, f"{self.name} breaks {'; '.join(broken)}"
        return effects


class RealBench(WatchedBench):
    def add(self, name: str, make: Callable[[], Machine], *, wall_ms: int = WALL_MS) -> BenchNode:
        super().add(name, make, wall_ms=wall_ms)
        node = self.nodes[Address(name)] = PlainNode(Address(name), make, wall_ms * NS_PER_MS)
        return node


class RealPart(WatchedPart):
    """The commands of golden scripts, with data nodes that are real."""

    def __init__(self) -> None:
        super().__init__()
        self.bench: RealBench = RealBench()
        self.bench.muted.update({"operator_fence_again": None})
        self.sent = 0
        #: token number -> value, of appends that were acknowledged
        self.acknowledged: dict[int, bytes] = {}
        self.asked: dict[RequestId, tuple[int, bytes]] = {}

    def _puppet(self, node: NodeId) -> DataNode:  # type: ignore[override]
        return DataNode(node, SMALL)

    @verb
    def wipe(self, node: str) -> list[str]:
        if self.bench.node(node).machine is not None:
            self.bench.crash(node)
        self.bench.node(node).disk = BenchDisk()
        return self.bench.start(node)

    @verb
    def crash(
        self, node: str | None = None, *, keep: str | None = None, torn: str | None = None
    ) -> list[str]:
        self.bench.crash(self.named(node))
        return []

    def real(self, node: str, shard: ShardName = SHARD) -> ShardReplica | None:
        machine = self.bench.node(node).machine
        return machine.shards.replica(LogName(shard)) if isinstance(machine, DataNode) else None

    def leader(self) -> str | None:
        """Who says that it leads, in the highest epoch."""
        replicas = [(r.epoch, name) for name in self.disks if (r := self.real(name)) is not None]
        leading = [
            (epoch, name)
            for epoch, name in replicas
            if (r := self.real(name)) is not None and r.status is Status.LEADER
        ]
        return max(leading)[1] if leading else None

    # Clients

    def append(self, count: int = 1) -> None:
        """Append records to whoever leads, each with a token; nobody waits."""
        leader = self.leader()
        for _ in range(count if leader is not None else 0):
            assert leader is not None
            self.sent += 1
            value = b"value %d" % self.sent
            chunk = Chunk(1, Token("p", self.sent), encode_block([b"k"], [value]))
            request = self._request()
            self.asked[request] = (self.sent, value)
            message = AppendRecords(request, ZERO, SHARD, (chunk,))
            self.bench.receive(leader, WRITER, message)
        self.take_answers()

    def take_answers(self) -> None:
        for message in self.bench.received.pop(WRITER, []):
            if isinstance(message, RecordsAppended):
                number, value = self.asked[message.request]
                self.acknowledged[number] = value

    def read_all(self) -> list[bytes]:
        """All values of the shard, as its leader has them."""
        values: list[bytes] = []
        after, resume = Offset(-1), None
        while True:
            leader = self.leader()
            assert leader is not None
            message = ReadRecords(
                self._request(), ZERO, SHARD, after, 1000, 1 << 20, "leader", resume
            )
            self.bench.receive(leader, WRITER, message)
            self.bench.run_ms(3000, until=lambda: bool(self.bench.received.get(WRITER)))
            (answer,) = self.bench.received.pop(WRITER)
            assert isinstance(answer, RecordsRead), answer
            for entry in answer.entries:
                records = decode_records(entry.body)
                for chunk in records.chunks:
                    values += decode_block(chunk.block)[1]
            resume = answer.resume
            if len(values) >= answer.next_offset:
                return values
            after = Offset(len(values) - 1)

    def settle_down(self, *, within_ms: int = 60_000) -> None:
        """All nodes run and can talk: the shard becomes steady, and all of its ensemble follow."""
        self.do("heal")
        for name, each in self.bench.nodes.items():
            if each.machine is None:
                self.bench.start(name)
        self.bench.run_ms(within_ms, until=self.is_whole)
        assert self.is_whole(), "\n".join(self.do("metadata") + self.told())
        self.take_answers()

    def is_whole(self) -> bool:
        if self._keeper().get(shard_path(SHARD)) is None:
            return False
        stored = self.stored()
        if stored.leader is None or stored.removed_nodes or stored.status.value != "steady_state":
            return False
        replicas = [self.real(node) for node in stored.ensemble]
        whole = [r for r in replicas if r is not None]
        lead = self.real(stored.leader)
        return (
            lead is not None
            and lead.is_serving
            and len(whole) == len(stored.ensemble)
            and all(r.applied_index == lead.head and r.epoch == stored.epoch for r in whole)
        )

    def told(self) -> list[str]:
        return [
            f"{name} {r.status} epoch={r.epoch} head={r.head} applied={r.applied_index}"
            for name in self.disks
            if (r := self.real(name)) is not None
        ]

    def check_whole(self) -> None:
        """Everything acknowledged is there, once; and all replicas are the same."""
        values = self.read_all()
        assert len(values) == len(set(values)), "twice"
        lost = [value for value in self.acknowledged.values() if value not in set(values)]
        assert lost == []
        stored = self.stored()
        states = [self.real(node) for node in stored.ensemble]
        assert len({r.machine.fingerprint() for r in states if r is not None}) == 1
        outside = [name for name in self.disks if name not in stored.ensemble]
        assert [name for name in outside if self.real(name) is not None] == []


def real(*lines: str) -> RealPart:
    part = RealPart()
    part.do(*lines)
    return part
