"""Golden scripts about data nodes: what clients are told. The script is the operator, as with ``shardlog``.

Records are written ``key:value``. Those of one ``append`` are one chunk; ``turn on`` holds the end of the
turn back, so that what several clients want becomes one entry when it is switched off.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.node_clock import BOUND_FILE
from motet.core.machine import Message
from motet.core.metadata.definitions import StreamDefinition
from motet.core.shardlog.entry import Entry, EntryId, EntryKind
from motet.core.shardlog.messages import AddEntryRequest
from motet.core.streams.change import Token
from motet.core.streams.cluster_messages import (
    Heartbeat,
    HeartbeatAnswer,
    ShardMap,
    ShardMapPushed,
    ShardPlace,
    StreamPlace,
)
from motet.core.streams.entries import Chunk, decode_records
from motet.core.streams.messages import (
    AppendRecords,
    DataRefused,
    DescribeShard,
    ReadRecords,
    RecordsAppended,
    RecordsRead,
    ShardDescribed,
    Source,
)
from motet.core.streams.node import CUT_TIMER, DataNode
from motet.errors import BadScenario
from motet.format.record_block import decode_block, encode_block
from motet.ids import Address, Epoch, NodeId, Offset, RequestId, StreamId, StreamName
from motet.testing.bench_network import InFlight, Line
from motet.testing.part import verb
from motet.testing.script import Command
from motet.testing.scripts.shardlog import ShardlogPart
from motet.testing.scripts.shardlog_bench import OPERATOR, SHARD, ShardBench

CLIENT = Address("client")


class DataBench(ShardBench):
    """Data nodes; what a client hears is told."""

    def _deliver(self, each: InFlight) -> list[Line]:
        if each.send.to == CLIENT:
            return [Line("note", f"client hears {told_answer(each.send.message)}")]
        if isinstance(answer := each.send.message, HeartbeatAnswer):
            drift = "an unknown time" if answer.drift_ms is None else f"{answer.drift_ms} ms"
            found = f", found {answer.found}" if answer.found > ZERO else ""
            return [Line("note", f"op hears {each.sender}: its wall is off by {drift}{found}")]
        return super()._deliver(each)


class DataNodePart(ShardlogPart):
    """Commands for data nodes."""

    name = "datanode"

    def __init__(self) -> None:
        super().__init__()
        self.bench: DataBench = DataBench()
        self.requests = 0
        self.is_turn_held = False
        #: all nodes, if they agree on the time; else each goes by its own wall
        self.agreeing: tuple[NodeId, ...] = ()
        self.rounds = 0
        self.map_version = 0

    def run(self, command: Command) -> list[str]:
        lines = super().run(command)
        if not self.is_turn_held:
            lines += self._end_turns()
        return lines

    def _end_turns(self) -> list[str]:
        lines: list[str] = []
        for node in self.bench.nodes.values():
            if node.machine is not None and CUT_TIMER in node.timers:
                lines += self.bench.fire(node.name, CUT_TIMER)
                if not self.is_manual:
                    lines += self.bench.settle()
        return lines

    def _factory(self, name: NodeId) -> Callable[[], DataNode]:  # type: ignore[override]
        return lambda: DataNode(name, self.config, None, self.agreeing)

    def _node(self, name: str) -> DataNode:  # type: ignore[override]
        machine = self.bench.node(name).running()
        assert isinstance(machine, DataNode)
        return machine

    def _check(self) -> None:
        """Equal logs give equal states: those that have applied as much are the same."""
        states: dict[int, bytes] = {}
        for node in self.bench.nodes.values():
            if isinstance(node.machine, DataNode):
                replica = node.machine.shards.replica(SHARD)
                if replica is not None:
                    found = replica.machine.fingerprint()
                    known = states.setdefault(replica.applied_index.offset, found)
                    assert known == found, "two nodes have applied the same and differ"

    def _told_entry(self, entry: Entry) -> str:
        return told_records(entry)

    # The operator, and a leader that is not to be trusted

    @verb
    def cluster(self, *, nodes: int = 3, start: bool = True, agree: bool = False) -> list[str]:
        """Put nodes n1 … on the bench, and start them; they agree on the time, or go by their own walls."""
        if agree:
            self.agreeing = tuple(NodeId(f"n{number}") for number in range(1, nodes + 1))
        return super().cluster(nodes=nodes, start=start)

    @verb
    def heartbeat(self, *nodes: str, found: str | None = None) -> list[str]:
        """Ask nodes how they are, as the operator does, which has heard of a clock on somebody's disk."""
        self.rounds += 1
        clock = ZERO if found is None else Clock.parse(found)
        message = Heartbeat(self.rounds, ZERO, found=clock)
        return [
            line
            for name in nodes or self.bench.nodes
            for line in self.bench.receive(name, OPERATOR, message)
        ]

    @verb
    def map(self, *nodes: str, epoch: int = 1, operator: str = OPERATOR) -> list[str]:
        """Push a map to all nodes: an operator places the shard on these; without any, it is gone."""
        self.map_version += 1
        definition = StreamDefinition(StreamId("0"), StreamName("s"), 1, None)
        ensemble = tuple(NodeId(node) for node in nodes)
        place = ShardPlace(SHARD, Epoch(epoch), None, ensemble)
        streams = (StreamPlace(definition, (place,)),) if ensemble else ()
        message = ShardMapPushed(ShardMap(self.map_version, NodeId(operator), (), streams))
        return [
            line
            for name in self.bench.nodes
            for line in self.bench.receive(name, Address(operator), message)
        ]

    @verb
    def push(self, node: str, leader: str, *, clock: str, seen: str | None = None) -> list[str]:
        """Send a node the next entry, as if its leader had given it this clock and had seen that one."""
        state = self._replica(node).core.state
        entry = EntryId(state.epoch, Offset(state.log.head.offset + 1))
        given = Clock.parse(clock)
        message = AddEntryRequest(
            SHARD,
            state.epoch,
            state.log.head,
            (Entry(entry, EntryKind.BARRIER, given, b""),),
            state.commit_index,
            state.log.first,
            state.heard_round,
            given if seen is None else Clock.parse(seen),
        )
        return self.bench.receive(node, leader, message)

    @verb
    def clocks(self, *nodes: str) -> list[str]:
        """Show the clocks of nodes: what they have given out, and seen."""
        lines = []
        for name in nodes or self.bench.nodes:
            machine = self._node(name)
            lines.append(f"{name} clock {machine.state.clock.current} seen {machine.shards.clock}")
        return lines

    @verb
    def damage_bound(self, node: str | None = None) -> list[str]:
        """Flip a bit in the durable bound of a node's clock."""
        durable = self.bench.node(self.named(node)).disk.durable
        if BOUND_FILE not in durable:
            raise BadScenario("there is no durable bound to damage", hint="append first")
        bound = durable[BOUND_FILE]
        durable[BOUND_FILE] = bound[:-1] + bytes([bound[-1] ^ 1])
        return []

    # Clients

    def _request(self) -> RequestId:
        self.requests += 1
        return RequestId(self.requests)

    @verb
    def turn(self, is_held: bool) -> list[str]:
        """Hold the end of the nodes' turns back; or let them end."""
        self.is_turn_held = is_held
        return []

    @verb
    def append(
        self, node: str, *records: str, token: str | None = None, clock: str | None = None
    ) -> list[str]:
        """Send a chunk of records KEY:VALUE, under a token PRODUCER:NUMBER or none."""
        pairs = [record.partition(":") for record in records]
        block = encode_block([k.encode() for k, _, _ in pairs], [v.encode() for _, _, v in pairs])
        chunk = Chunk(len(pairs), _token(token), block)
        seen = ZERO if clock is None else Clock.parse(clock)
        message = AppendRecords(self._request(), seen, SHARD, (chunk,))
        return self.bench.receive(node, CLIENT, message)

    @verb
    def read(  # type: ignore[override]
        self,
        node: str,
        after: int = -1,
        *,
        limit: int = 100,
        source: str = "leader",
        resume: int | None = None,
    ) -> list[str]:
        """Read records after an offset, from the leader or from any replica."""
        who: Source = "replica" if source == "replica" else "leader"
        where = None if resume is None else Offset(resume)
        message = ReadRecords(
            self._request(), ZERO, SHARD, Offset(after), limit, 1 << 20, who, where
        )
        return self.bench.receive(node, CLIENT, message)

    @verb
    def describe(self, node: str) -> list[str]:
        """Ask a leader how many records there are."""
        return self.bench.receive(node, CLIENT, DescribeShard(self._request(), ZERO, SHARD))


def _token(text: str | None) -> Token | None:
    if text is None:
        return None
    producer, colon, number = text.partition(":")
    if not colon:
        raise BadScenario(f"{text!r} is no token PRODUCER:NUMBER")
    return Token(producer, int(number))


def told_answer(message: Message) -> str:
    """An answer in few words."""
    match message:
        case RecordsAppended(request=request, places=places):
            told = [
                f"@{place.first_offset} epoch {place.epoch} {place.clock}"
                f"{', again' if place.duplicate else ''}"
                for place in places
            ]
            return f"#{request} appended {'; '.join(told)}"
        case RecordsRead(request=request):
            found = " ".join(
                f"@{records.first_offset}:" + ",".join(_told_block(c.block) for c in records.chunks)
                for records in (decode_records(entry.body) for entry in message.entries)
            )
            return f"#{request} read {found or 'nothing'}; {message.next_offset} in all"
        case ShardDescribed(request=request):
            return f"#{request} records {message.first_offset} to {message.next_offset}"
        case DataRefused(request=request):
            return f"#{request} {message.code} {message.what}"
    raise AssertionError(f"{type(message).__name__} is no answer to a client")


def told_records(entry: Entry) -> str:
    """An entry with its records."""
    if entry.kind == EntryKind.BARRIER:
        return f"{entry.id}#"
    chunks = decode_records(entry.body).chunks
    return f"{entry.id}=" + "|".join(_told_block(chunk.block) for chunk in chunks)


def _told_block(block: bytes) -> str:
    keys, values = decode_block(block)
    shown = [v.decode() if len(v) <= 12 else f"{len(v)}B" for v in values]
    return ",".join(f"{k.decode()}={v}" for k, v in zip(keys, shown, strict=True))
