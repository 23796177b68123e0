"""Whoever comes new to a cluster when the liar is gone: it must get its work done, and all must agree
again."""

from __future__ import annotations

from typing import Protocol

from tests.fuzz.hostile import NONSENSE

from motet.core.clock.hlc import ZERO
from motet.core.clock.time_peer import TimePeer
from motet.core.keeper.front.node import KeeperNode
from motet.core.machine import Effect, Message
from motet.core.metadata.definitions import (
    StreamDefinition,
    decode_stream_definition,
    shard_names,
)
from motet.core.metadata.paths import STREAMS
from motet.core.onelog import messages as embedded
from motet.core.shardlog.state import Status as ShardStatus
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.cluster_messages import (
    CreateStream,
    OperatorRefused,
    ShardMap,
    StreamCreated,
)
from motet.core.streams.entries import Chunk
from motet.core.streams.messages import (
    AppendRecords,
    CommitTransaction,
    DataRefused,
    GetShardMap,
    PrepareTransaction,
    ReadRecords,
    RecordsAppended,
    RecordsRead,
    ShardMapIs,
    TransactionEnded,
    TransactionPrepared,
)
from motet.core.streams.node import DataNode
from motet.core.streams.votes import Vote
from motet.core.vsr.context import Core
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.errors.shards import OffsetExpired
from motet.format.record_block import encode_block
from motet.ids import Address, LogName, Offset, ShardName, StreamId, StreamName, TransactionId
from motet.sim.host import Host
from motet.sim.storm import Run
from motet.sim.world import World
from motet.verify.storms.asker import Asker
from motet.verify.storms.keeper import KeeperRun
from motet.verify.storms.streams import StreamsRun
from motet.verify.storms.vsr import VsrRun

operations = 12


class Probe(Protocol):
    """Somebody with work to do."""

    def begin(self) -> None: ...

    def is_done(self) -> bool: ...

    def why(self) -> str:
        """What is not done."""
        ...


def probe_for(branch: str, run: Run, world: World, number: int, mode: str) -> Probe:
    """The one for this part of the system."""
    if isinstance(run, VsrRun):
        return VsrProbe(run, world, number)
    if isinstance(run, KeeperRun):
        return KeeperProbe(run, world, number)
    if isinstance(run, StreamsRun):
        return StreamsProbe(run, world, number, is_whole=mode == NONSENSE)
    if branch == "database":
        return AskerProbe(world, EmbeddedAsker(world, number), "streams")
    return TimeProbe(world)


# Consensus and the keeper


def _core(host: Host) -> Core:
    machine = host.machine
    if isinstance(machine, KeeperNode):
        return machine.replica.core
    assert isinstance(machine, Replica)
    return machine.core


def _disagreement(hosts: list[Host]) -> str | None:
    """Why the replicas are not of one mind; None if they are."""
    cores = [_core(host) for host in hosts]
    told = [
        f"{host.label} {core.state.status.value} {core.state.refusal} view {core.state.view}"
        f" op {core.state.op} commit {core.state.commit_min}/{core.state.commit_max}"
        f" checkpoint {core.checkpoint_op}{' syncing' if core.is_syncing else ''}"
        for host, core in zip(hosts, cores, strict=True)
    ]
    first = cores[0].state
    for core in cores:
        state = core.state
        if state.status is not Status.NORMAL or core.is_syncing or state.restore is not None:
            return "; ".join(told)
        if state.view != first.view or not state.commit_min == state.op == first.op:
            return "; ".join(told)
    if len({core.machine.fingerprint() for core in cores}) != 1:
        return f"states differ at one op: {'; '.join(told)}"
    return None


class VsrProbe:
    def __init__(self, run: VsrRun, world: World, number: int) -> None:
        self._run, self._world = run, world
        run.workers = []
        self._number = 100 + number
        self._worker = run._add_worker(self._number, 1)
        self._worker.left = operations

    def begin(self) -> None:
        self._world.start(self._world.nodes[Address(self._worker.name)])

    def is_done(self) -> bool:
        return self._worker.is_done and _disagreement(self._run.hosts) is None

    def why(self) -> str:
        return f"a client has {self._worker.left} to do; {_disagreement(self._run.hosts)}"


class KeeperProbe:
    def __init__(self, run: KeeperRun, world: World, number: int) -> None:
        self._run, self._world = run, world
        self._client = run._add_client(100 + number, 1)
        self._client.left = operations

    def begin(self) -> None:
        self._world.start(self._world.nodes[Address(self._client.name)])

    def is_done(self) -> bool:
        return self._client.left <= 0 and _disagreement(self._run.hosts) is None

    def why(self) -> str:
        return f"a client has {self._client.left} to do; {_disagreement(self._run.hosts)}"


# Streams and transactions


class StreamsProbe:
    """Creates a stream, appends, commits over two shards, reads; and all shards are led and followed.

    Whoever lies in the name of the operator can have shards deleted that were there before: then only what is
    new is looked at.
    """

    def __init__(self, run: StreamsRun, world: World, number: int, *, is_whole: bool) -> None:
        self._run, self._world, self._is_whole = run, world, is_whole
        operators = [host.node.address for host in run.operators]
        nodes = [host.node.address for host in run.hosts.values()]
        self._asker = StreamsAsker(world, number, operators, nodes)
        world.host(world.add_node(self._asker.name, immune=True), "streams", self._asker.itself)

    def begin(self) -> None:
        self._world.start(self._world.nodes[Address(self._asker.name)])

    def is_done(self) -> bool:
        return self._asker.is_done and self._unrest() is None

    def _unrest(self) -> str | None:
        if not self._is_whole:
            return None
        defined = self._defined()
        for shard, known in self._run.store.metadata.items():
            if shard not in defined:
                continue  # a create that came late, after its stream was deleted: no operator touches it
            if known.status.value != "steady_state" or known.leader is None:
                return f"{shard} is in {known.status.value} epoch {known.epoch}"
            for node in known.ensemble:
                machine = self._run.hosts[node].machine
                assert isinstance(machine, DataNode)
                replica = machine.shards.replica(LogName(shard))
                if replica is None:
                    return f"{node} has no {shard}"
                wanted = ShardStatus.LEADER if node == known.leader else ShardStatus.FOLLOWER
                if replica.status is not wanted or replica.epoch != known.epoch:
                    told = f"{replica.status.value} in epoch {replica.epoch}"
                    return f"{node} is {told} of {shard}, which is led in {known.epoch}"
        return None

    def _defined(self) -> list[ShardName]:
        definitions = map(decode_stream_definition, self._run.store.below(STREAMS))
        return [shard for each in definitions for shard in shard_names(each)]

    def why(self) -> str:
        return f"{self._asker.why()}; {self._unrest()}"


class StreamsAsker(Asker):
    def __init__(
        self, world: World, number: int, operators: list[Address], nodes: list[Address]
    ) -> None:
        super().__init__(world, f"probe{number}", operators[0], timeout_ms=3_000, between_ms_max=50)
        self._operators, self._nodes = operators, nodes
        self._stream = StreamName(f"after-the-liar-{number}")
        self._definition = StreamDefinition(StreamId(f"d{number:015x}"), self._stream, 2, None)
        self._transaction = TransactionId(f"probe-{number}")
        self._map: ShardMap | None = None
        self._fence = 0
        self._step = 0
        self._heard: list[str] = []
        self._seen = ZERO
        self._vote = Vote(ZERO, b"")

    @property
    def is_done(self) -> bool:
        return self._step == 5

    def why(self) -> str:
        return f"a client is at step {self._step}, and last heard {self._heard[-3:]}"

    def _shard(self, number: int) -> ShardName:
        return ShardName(f"{self._definition.id}.{number}")

    def begin(self) -> list[Effect]:
        if self._step == 0:
            self._server = self.dice.pick(self._operators)
            return self.ask(CreateStream(self.next_request(), self._definition, self._fence))
        if self._step == 5:
            return []
        shard = self._shard(1 if self._step == 2 else 0)
        leader = self._leader(shard)
        if leader is None:
            self._server = self.dice.pick(self._nodes)
            return self.ask(GetShardMap(self.next_request(), ZERO))
        self._server = leader
        return self.ask(self._wanted(shard))

    def _leader(self, shard: ShardName) -> Address | None:
        if self._map is None:
            return None
        for stream in self._map.streams:
            for place in stream.places:
                if place.shard == shard and place.leader is not None:
                    return Address(place.leader)
        return None

    def _wanted(self, shard: ShardName) -> Message:
        request = self.next_request()
        other = self._shard(1)
        match self._step:
            case 1:
                block = encode_block([b"raw"], [b"v"])
                return AppendRecords(request, ZERO, shard, (Chunk(1, None, block),))
            case 2:
                branch = self._part(1, b"k1")
                return PrepareTransaction(
                    request, ZERO, shard, branch, (), self._shard(0), (other,)
                )
            case 3:
                branch = self._part(0, b"k0")
                return CommitTransaction(request, ZERO, shard, branch, (), (other,), (self._vote,))
            case _:
                return ReadRecords(request, ZERO, shard, Offset(-1), 10, 1 << 20)

    def _part(self, index: int, key: bytes) -> Branch:
        change = RowChange(index, key, "insert", b"{}", None)
        return Branch(self._transaction, self._seen, self._seen, 2, (change,))

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        self._heard.append(f"{type(asked).__name__}: {answer!r}"[:300])
        match answer:
            case StreamCreated():
                self._step = max(self._step, 1)
            case OperatorRefused() if answer.fence is not None:
                self._fence = answer.fence
            case ShardMapIs():
                self._map = answer.map
            case RecordsAppended() if self._step == 1:
                self._step, self._seen = 2, answer.places[0].clock
            case TransactionPrepared() if self._step == 2:
                self._step, self._vote = 3, Vote(answer.clock, answer.seal)
            case TransactionEnded() if self._step == 3 and answer.clock is not None:
                self._step = 4
            case TransactionEnded() if self._step == 3:  # it took too long, and was given up
                self._step, self._transaction = 1, TransactionId(f"{self._transaction}+")
            case RecordsRead() if self._step == 4 and answer.next_offset >= 2:
                self._step = 5
            case DataRefused(code=OffsetExpired.code) if self._step == 4:
                self._step = 5  # others have written so much that the first is not kept any more
            case _:
                self._map = None
        return self.pause()


# Embedded databases, and the time


class AskerProbe:
    def __init__(self, world: World, asker: EmbeddedAsker, host: str) -> None:
        self._world, self._asker = world, asker
        world.host(world.add_node(asker.name, immune=True), host, asker.itself)

    def begin(self) -> None:
        self._world.start(self._world.nodes[Address(self._asker.name)])

    def is_done(self) -> bool:
        return self._asker.done >= operations

    def why(self) -> str:
        return f"a client has done {self._asker.done}, and last heard {self._asker.heard}"


class EmbeddedAsker(Asker):
    """Creates a stream, appends to it, and reads that back."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(
            world, f"probe{number}", Address("n1"), timeout_ms=2_000, between_ms_max=20
        )
        self._stream = StreamName(f"after-the-liar-{number}")
        self.done = 0
        self.heard = ""

    def started(self) -> list[Effect]:
        return self.ask(embedded.CreateStream(self.next_request(), self._stream, 1))

    def begin(self) -> list[Effect]:
        return self.ask(embedded.Append(self.next_request(), self._stream, b"k", b"v"))

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        self.heard = f"{type(asked).__name__}: {answer!r}"[:300]
        self.done += isinstance(answer, embedded.Appended)
        is_created = not isinstance(asked, embedded.CreateStream)
        is_created |= isinstance(answer, embedded.StreamReady)
        return self.pause() if is_created else self.started()


class TimeProbe:
    """All agree on the time again."""

    def __init__(self, world: World) -> None:
        self._world = world

    def begin(self) -> None:
        """There is nothing to ask."""

    def _peers(self) -> list[tuple[Host, TimePeer]]:
        hosts = [host for node in self._world.nodes.values() for host in node.hosts.values()]
        return [(host, host.machine) for host in hosts if isinstance(host.machine, TimePeer)]

    def is_done(self) -> bool:
        return not self.why()

    def why(self) -> str:
        apart = [
            host.label
            for host, peer in self._peers()
            if peer.time is None or not peer.time.is_synchronized(host.node.time.now())
        ]
        return " ".join(apart)
