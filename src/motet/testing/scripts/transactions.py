"""Golden scripts about transactions over shards ``a``, ``b``, ``c``, each led by a node of its own, ``n1`` ….

An ensemble has one node, so what is logged is committed at once; the script is the client, and the operator.
``prepare t1 b x:1 home=a`` asks the leader of ``b`` to prepare its part; ``commit t1 a y:2 after=b`` asks
the home shard to commit. ``reads=x@(1000,1)`` says what was read, ``reads=x@none`` that there was nothing. A
transaction is as old as its ``age`` says. ``shards`` shows what is logged, and how far that is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Message
from motet.core.metadata.definitions import StreamDefinition
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.messages import BecomeLeaderRequest, FenceRequest
from motet.core.streams.cluster_messages import (
    Heartbeat,
    ShardMap,
    ShardMapPushed,
    ShardPlace,
    ShardsGone,
    StreamPlace,
    TurnClock,
)
from motet.core.streams.entries import Chunk
from motet.core.streams.messages import (
    AbortTransaction,
    AppendRecords,
    AskOutcome,
    CloseShard,
    CommitTransaction,
    GetLatestChange,
    GetTransaction,
    OrderShard,
    PrepareTransaction,
    ReadShardFeed,
    ResolveTransaction,
)
from motet.core.streams.node import CUT_TIMER, DataNode
from motet.core.streams.orders import Order, Prune, SetCursor
from motet.core.streams.pending import TransactionConfig
from motet.errors import BadScenario
from motet.format.record_block import encode_block
from motet.ids import (
    Address,
    Epoch,
    LogName,
    NodeId,
    RequestId,
    ShardName,
    StreamId,
    TransactionId,
)
from motet.limits import (
    entry_batch_bytes_max,
    outcomes_remembered,
    shard_segment_bytes,
    sparse_index_step_bytes,
)
from motet.testing.bench_part import BenchPart
from motet.testing.part import Converter, verb
from motet.testing.script import Command
from motet.testing.scripts.shardlog_bench import OPERATOR
from motet.testing.scripts.transactions_bench import (
    CLIENT,
    CONFIG,
    PREPARED,
    STREAM,
    TransactionBench,
    part_of,
    reads_of,
    told_shard,
    words,
)

START_WALL_MS = 1_000
MUTED = ("founded", "fenced", "leads", "recovered", "state_on_disk", "refused")


class TransactionsStorm(BenchPart):
    """Commands for transactions."""

    name = "transactions"
    converters: ClassVar[Mapping[type, Converter]] = {Clock: Clock.parse}

    def __init__(self) -> None:
        self.bench: TransactionBench = TransactionBench()
        self.bench.muted = dict.fromkeys(MUTED)
        self.requests = 0
        self.rounds = 0
        self.epochs: dict[ShardName, Epoch] = {}
        self.is_manual = False

    def run(self, command: Command) -> list[str]:
        lines = super().run(command)
        while not self.is_manual and (self.bench.network.in_flight or self._turns()):
            lines += self.bench.settle()
            for name in self._turns():
                lines += self.bench.fire(name, CUT_TIMER)
        return lines

    def _turns(self) -> list[str]:
        nodes = self.bench.nodes.values()
        return [
            each.name for each in nodes if each.machine is not None and CUT_TIMER in each.timers
        ]

    # The bench

    @verb
    def cluster(
        self,
        *,
        shards: int = 3,
        remembered: int = outcomes_remembered,
        wall: int = START_WALL_MS,
        segment: int = shard_segment_bytes,
        index_point: int = sparse_index_step_bytes,
        compact: int = entry_batch_bytes_max,
    ) -> list[str]:
        """Put nodes n1 … on the bench, each with a shard: a, b, c, which remembers so many outcomes.

        The files of its log have so many bytes, there is an index point in so many, and so many are compacted
        into one entry.
        """
        config = msgspec.structs.replace(
            CONFIG,
            outcomes_remembered=remembered,
            index_step_bytes=index_point,
            compaction_bytes=compact,
        )
        lines: list[str] = []
        for number in range(shards):
            name, shard = NodeId(f"n{number + 1}"), ShardName("abc"[number])
            log = ShardlogConfig(segment_bytes=segment, preallocate_bytes=0)
            self.bench.add(name, _maker(name, log, config), wall_ms=wall)
            self.epochs[shard] = Epoch(0)
        lines += self.start()
        for shard in self.epochs:
            lines += self._elect(shard, founds=True)
        return lines + self._push_map()

    def _push_map(self) -> list[str]:
        definition = StreamDefinition(StreamId("0" * 16), STREAM, len(self.epochs), 1)
        places = tuple(
            ShardPlace(shard, epoch, _node(shard), (_node(shard),))
            for shard, epoch in self.epochs.items()
        )
        known = ShardMap(1, NodeId("op"), (), (StreamPlace(definition, places),))
        lines: list[str] = []
        for node in self.bench.nodes.values():
            if node.machine is not None:
                lines += self.bench.receive(node.name, OPERATOR, ShardMapPushed(known))
        return lines

    def _elect(self, shard: ShardName, *, founds: bool = False) -> list[str]:
        self.epochs[shard] = epoch = Epoch(self.epochs[shard] + 1)
        node, life = _node(shard), self._machine(shard).shards.incarnation
        fence = FenceRequest(LogName(shard), epoch, life, founds)
        lines = self.bench.receive(node, OPERATOR, fence) + self.bench.settle()
        lead = BecomeLeaderRequest(LogName(shard), epoch, 1, ())
        return lines + self.bench.receive(node, OPERATOR, lead) + self.bench.settle()

    @verb
    def lead(self, shard: str) -> list[str]:
        """Elect the node of a shard in a new epoch: for instance after it was restarted."""
        return self._elect(ShardName(shard)) + self._push_map()

    @verb
    def hold_messages(self, is_held: bool) -> list[str]:
        """Deliver messages only when told to; or, with off, at once again."""
        self.is_manual = is_held
        return []

    @verb
    def trace(self, *kinds: str) -> list[str]:
        """Tell messages of these kinds, such as ResolveTransaction."""
        self.bench.traced = dict.fromkeys(kinds)
        return []

    @verb
    def wait(self, ms: int) -> list[str]:
        """Let time pass; messages arrive as they are sent."""
        lines: list[str] = []
        for _ in range(ms // 50):
            lines += self.bench.advance(50)
            lines += [] if self.is_manual else self.bench.settle()
        return lines

    def _machine(self, shard: ShardName) -> DataNode:
        machine = self.bench.node(_node(shard)).running()
        assert isinstance(machine, DataNode)
        return machine

    # The client

    def _ask(self, shard: ShardName, message: Message) -> list[str]:
        return self.bench.receive(_node(shard), CLIENT, message)

    def _request(self) -> RequestId:
        self.requests += 1
        return RequestId(self.requests)

    @verb
    def get(self, shard: str, key: str) -> list[str]:
        """The latest change of a key."""
        name = ShardName(shard)
        return self._ask(name, GetLatestChange(self._request(), ZERO, name, key.encode()))

    @verb
    def append(self, shard: str, *records: str) -> list[str]:
        """Append raw records KEY:VALUE."""
        name, pairs = ShardName(shard), [record.partition(":") for record in records]
        block = encode_block([k.encode() for k, _, _ in pairs], [v.encode() for _, _, v in pairs])
        chunk = Chunk(len(pairs), None, block)
        return self._ask(name, AppendRecords(self._request(), ZERO, name, (chunk,)))

    @verb
    def prepare(
        self,
        transaction: str,
        shard: str,
        *changes: str,
        home: str = "a",
        others: str | None = None,
        reads: str | None = None,
        age: int = 1,
        first: int = 0,
        count: int | None = None,
    ) -> list[str]:
        """Ask a participant to prepare changes KEY:VALUE; ``others`` prepare, too."""
        name = ShardName(shard)
        itself = () if shard == home else (name,)
        participants = (*itself, *map(ShardName, words(others)))
        branch, request = part_of(transaction, changes, age, first, count), self._request()
        self.bench.prepares[request] = branch.transaction, name
        return self._ask(
            name,
            PrepareTransaction(
                request, ZERO, name, branch, reads_of(reads), ShardName(home), participants
            ),
        )

    @verb
    def commit(
        self,
        transaction: str,
        shard: str,
        *changes: str,
        after: str | None = None,
        floor: Clock | None = None,
        claims: Clock | None = None,
        fixed: Clock | None = None,
        reads: str | None = None,
        age: int = 1,
        first: int = 0,
        count: int | None = None,
    ) -> list[str]:
        """Ask the home shard to commit, after these have prepared, with the votes that they have given.

        With a ``floor`` it is as if they had voted at that clock, and with ``claims`` the client says so.
        """
        name = ShardName(shard)
        participants = tuple(map(ShardName, words(after)))
        branch = part_of(transaction, changes, age, first, count)
        votes = tuple(self.bench.vote(branch, each, name, floor, claims) for each in participants)
        message = CommitTransaction(
            self._request(), ZERO, name, branch, reads_of(reads), participants, votes, fixed
        )
        return self._ask(name, message)

    @verb
    def abort(self, transaction: str, shard: str, *, after: str | None = None) -> list[str]:
        """Ask the home shard to give up."""
        name = ShardName(shard)
        participants = tuple(map(ShardName, words(after)))
        return self._ask(
            name,
            AbortTransaction(
                self._request(), ZERO, name, TransactionId(transaction), Clock(1, 0), participants
            ),
        )

    @verb
    def doubt(
        self, transaction: str, participant: str, *, home: str = "a", prepared: Clock = PREPARED
    ) -> list[str]:
        """The home shard gets a participant's question what became of a transaction."""
        asker = ShardName(participant)
        message = AskOutcome(
            ShardName(home), TransactionId(transaction), Clock(1, 0), asker, (asker,), prepared
        )
        return self.bench.receive(_node(ShardName(home)), Address(_node(asker)), message)

    @verb
    def decide(
        self, transaction: str, participant: str, *, home: str = "a", clock: Clock | None = None
    ) -> list[str]:
        """A participant is told by the node of the home shard what was decided: committed, with a clock."""
        shard = ShardName(participant)
        message = ResolveTransaction(
            shard, TransactionId(transaction), Clock(1, 0), ShardName(home), clock, 0
        )
        return self.bench.receive(_node(shard), Address(_node(ShardName(home))), message)

    @verb
    def status(self, transaction: str, shard: str) -> list[str]:
        """Ask a shard what it knows of a transaction."""
        name = ShardName(shard)
        return self._ask(
            name, GetTransaction(self._request(), ZERO, name, TransactionId(transaction))
        )

    @verb
    def close(self, shard: str, *, at_least: Clock | None = None) -> list[str]:
        """Ask how far a shard is closed."""
        name = ShardName(shard)
        return self._ask(name, CloseShard(self._request(), ZERO, name, at_least))

    @verb
    def cursor(self, shard: str, name: str, clock: Clock | None = None) -> list[str]:
        """Save a named cursor; without a clock it is dropped."""
        return self._order(ShardName(shard), SetCursor(name, clock))

    @verb
    def prune(self, shard: str, up_to: Clock, *, force: bool = False) -> list[str]:
        """Prune the feed of a shard."""
        return self._order(ShardName(shard), Prune(up_to, force))

    def _order(self, shard: ShardName, order: Order) -> list[str]:
        return self._ask(shard, OrderShard(self._request(), ZERO, shard, order))

    @verb
    def feed(self, shard: str, *, after: Clock | None = None, limit: int = 100) -> list[str]:
        """Read the feed of a shard."""
        name = ShardName(shard)
        return self._ask(
            name, ReadShardFeed(self._request(), ZERO, name, after, None, limit, 1 << 20)
        )

    @verb
    def seal(self, *shards: str) -> list[str]:
        """An operator asks all nodes how they are, and is about to delete these shards."""
        return self._beat(Heartbeat(self.rounds + 1, ZERO, tuple(map(ShardName, shards))))

    @verb
    def turn_clock(self, is_on: bool, *, version: int, only: str | None = None) -> list[str]:
        """An operator asks all nodes how they are, or one, and says that the clock is on or off."""
        return self._beat(Heartbeat(self.rounds + 1, ZERO, (), TurnClock(is_on, version)), only)

    def _beat(self, beat: Heartbeat, only: str | None = None) -> list[str]:
        self.rounds += 1
        return [
            line
            for name, node in self.bench.nodes.items()
            if node.machine is not None and only in (None, name)
            for line in self.bench.receive(name, OPERATOR, beat)
        ]

    @verb
    def gone(self, *shards: str) -> list[str]:
        """Shards have been deleted: their nodes are down, the map has them no more, and all are told."""
        lines: list[str] = []
        for shard in map(ShardName, shards):
            del self.epochs[shard]
            lines += self.bench.crash(_node(shard))
        lines += self._push_map()
        names = tuple(map(ShardName, shards))
        for shard in self.epochs:
            lines += self.bench.receive(_node(shard), OPERATOR, ShardsGone(names))
        return lines

    @verb
    def shards(self) -> list[str]:
        """Show what is in the logs, what is open, and how far they are closed."""
        return [line for shard in self.epochs for line in self._told_shard(shard)]

    def _told_shard(self, shard: ShardName) -> list[str]:
        replica = self._machine(shard).shards.replica(LogName(shard))
        if replica is None:
            return [f"{shard} is not there"]
        return [told_shard(replica)]


def _maker(name: NodeId, log: ShardlogConfig, config: TransactionConfig) -> Callable[[], DataNode]:
    return lambda: DataNode(name, log, config)


def _node(shard: ShardName) -> NodeId:
    if shard not in ("a", "b", "c"):
        raise BadScenario(f"there is no shard {shard!r}; there are a, b, c")
    return NodeId(f"n{'abc'.index(shard) + 1}")
