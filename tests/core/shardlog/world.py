"""A small world for shard nodes: everything that can happen happens, in an order that a seed decides.

Messages are lost, repeated and overtaken; nodes crash and keep any subset of what was not durable; disks
fill up, or are lost altogether. The operator is the least that does its duty: it is atomic with its
metadata, fences majorities of members, and changes ensembles in two phases. What is checked at every step:
the invariants of the nodes; nobody applies what another has applied differently; nothing that was applied
by a leader is ever lost.
"""

from __future__ import annotations

import random

import msgspec

from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Event,
    Fired,
    Message,
    Note,
    Now,
    Preallocate,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Remove,
    Replace,
    Send,
    SetTimer,
    Started,
    Truncate,
    Write,
    WriteFailed,
    Written,
)
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.shards import BEAT
from motet.ids import Address, NodeId, WriteId
from motet.testing.bench_node import BenchDisk
from motet.testing.scripts.shardlog_bench import SHARD, AppendValue, ListMachine, ShardNode

OPERATOR = Address("op")
CLIENT = Address("client")

SMALL = ShardlogConfig(
    segment_bytes=600,
    preallocate_bytes=300,
    index_step_bytes=128,
    tail_bytes_max=400,
    message_bytes=200,
    in_flight_bytes_max=500,
    read_bytes=256,
    snapshot_every_bytes=800,
    snapshots_given_max=2,
    keep_bytes=1500,
)


class Odds(msgspec.Struct, frozen=True):
    """How likely each kind of thing is, relative to the others."""

    deliver: int = 600
    repeat: int = 15
    lose: int = 15
    sync: int = 200
    beat: int = 60
    append: int = 60
    operate: int = 30
    crash: int = 4
    wipe: int = 0
    fill: int = 2
    fail_read: int = 0


class WorldNode:
    """A node, its disk, and what is under way between the two."""

    def __init__(self, name: NodeId, config: ShardlogConfig) -> None:
        self.name = name
        self.config = config
        self.disk = BenchDisk()
        self.machine: ShardNode | None = None
        self.writes: dict[WriteId, bool | None] = {}
        self.withheld: list[Send] = []
        self.answers: list[Event] = []
        self.reads: list[Read] = []
        #: lost its disk, and has not been seen as a member since
        self.is_wiped = False

    @property
    def replica(self) -> ShardReplica | None:
        return None if self.machine is None else self.machine.shards.replica(SHARD)


class World:
    """Nodes and what is between them."""

    def __init__(
        self, seed: int, nodes: int = 5, odds: Odds | None = None, config: ShardlogConfig = SMALL
    ) -> None:
        self.random = random.Random(seed)
        self.odds = odds or Odds()
        self.nodes = {
            NodeId(f"n{number}"): WorldNode(NodeId(f"n{number}"), config)
            for number in range(1, nodes + 1)
        }
        self.in_flight: list[tuple[Address, Address, Message]] = []
        self.ns = 0
        self.lives = 0
        self.values = 0
        #: what was seen
        self.marks: dict[str, int] = {}
        #: offset -> what was applied there, by anybody
        self.applied: dict[int, tuple[int, int, bytes]] = {}
        #: how much of each node's applied list has been looked at
        self._seen: dict[NodeId, tuple[int, int]] = {}
        self._floors: dict[NodeId, tuple[int, int, int]] = {}
        self.heard: list[tuple[NodeId, Message]] = []

    @property
    def now(self) -> Now:
        return Now(self.ns, 1_000 * NS_PER_MS + self.ns)

    # Nodes

    def start(self, node: WorldNode) -> None:
        self.lives += 1
        node.machine = ShardNode(node.name, node.config)
        self.step(node, Started(self.now, self.lives))

    def crash(self, node: WorldNode) -> None:
        keep = [change.id for change in node.disk.pending if self.random.random() < 0.5]
        torn = None
        writes = [c for c in node.disk.pending if isinstance(c, Write) and c.id not in keep]
        if writes and self.random.random() < 0.5:
            change = self.random.choice(writes)
            torn = change.id, self.random.randrange(len(change.data))
        # A write to a file that was replaced is lost when the replacement is; see the simulated disk.
        node.disk.crash(keep, torn)
        node.disk.full = False
        node.machine = None
        node.writes, node.withheld, node.answers, node.reads = {}, [], [], []
        self._seen.pop(node.name, None)
        self._floors.pop(node.name, None)

    def wipe(self, node: WorldNode) -> None:
        self.crash(node)
        node.disk.durable.clear()
        node.is_wiped = True

    def step(self, node: WorldNode, event: Event) -> None:
        assert node.machine is not None
        for effect in node.machine.step(event):
            self._perform(node, effect)
        self._check(node)

    def _perform(self, node: WorldNode, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(node, effect)
            case Write() | Replace() | Truncate() | Preallocate() | Remove():
                why = node.disk.ask(effect)
                node.writes[effect.id] = None if why is None else False
                if why is not None:
                    node.answers.append(WriteFailed(self.now, effect.id, why))
            case Read():
                node.reads.append(effect)
            case Note(what=what):
                self.marks[what] = self.marks.get(what, 0) + 1
            case SetTimer():
                pass

    def _send(self, node: WorldNode, send: Send) -> None:
        if send.after is not None and node.writes[send.after] is None:
            node.withheld.append(send)
        elif send.after is None or node.writes[send.after]:
            self.in_flight.append((Address(node.name), send.to, send.message))

    def sync(self, node: WorldNode, *, everything: bool = False) -> None:
        """Make some of what is pending durable, file by file; and hear what the disk has to say."""
        files = list(dict.fromkeys(change.file for change in node.disk.pending))
        for file in files:
            if everything or self.random.random() < 0.7:
                for write in node.disk.sync(file):
                    node.writes[write] = True
                    released = [send for send in node.withheld if send.after == write]
                    node.withheld = [send for send in node.withheld if send.after != write]
                    for send in released:
                        self.in_flight.append((Address(node.name), send.to, send.message))
                    node.answers.append(Written(self.now, write))
        while node.answers or node.reads:
            if node.answers:
                self.step(node, node.answers.pop(0))
            else:
                self._read(node, node.reads.pop(0))

    def _read(self, node: WorldNode, read: Read) -> None:
        if self.random.randrange(1000) < self.odds.fail_read:
            self.step(node, ReadFailed(self.now, read.id, "bad sector"))
            return
        data = node.disk.read(read.file, read.offset, read.size_bytes)
        self.step(node, ReadBack(self.now, read.id, data))

    def deliver(self, at: int) -> None:
        sender, to, message = self.in_flight.pop(at)
        if to == OPERATOR:
            self.heard.append((NodeId(sender), message))
            return
        node = self.nodes.get(NodeId(to))
        if node is not None and node.machine is not None:
            self.step(node, Received(self.now, sender, message))

    def say(self, to: NodeId, message: Message) -> None:
        self.in_flight.append((OPERATOR, Address(to), message))

    def beat(self) -> None:
        self.ns += 100 * NS_PER_MS
        for node in self.nodes.values():
            if node.machine is not None:
                self.step(node, Fired(self.now, BEAT))

    def append(self) -> None:
        """A client writes to whoever leads, or thinks so."""
        for node in self.nodes.values():
            replica = node.replica
            if replica is not None and replica.is_serving:
                self.values += 1
                size = self.random.choice((1, 1, 1, 20, 150))
                value = f"{self.values}".encode() * size
                self.step(node, Received(self.now, CLIENT, AppendValue(value)))

    # Chance

    def turn(self) -> None:
        """One thing happens."""
        odds = self.odds
        names = list(odds.__struct_fields__)
        what = self.random.choices(names, [getattr(odds, name) for name in names])[0]
        live = [node for node in self.nodes.values() if node.machine is not None]
        if what in ("deliver", "repeat", "lose"):
            self._move(what)
        elif what == "sync" and live:
            self.sync(self.random.choice(live))
        elif what == "beat":
            self.beat()
        elif what == "append":
            self.append()
        elif what == "operate":
            self.operate()
        elif what == "crash":
            self._crash_or_start()
        elif what == "wipe":
            self._wipe()
        elif what == "fill" and live:
            disk = self.random.choice(live).disk
            disk.full = not disk.full

    def _move(self, what: str) -> None:
        if not self.in_flight:
            return
        at = 0 if self.random.random() < 0.6 else self.random.randrange(len(self.in_flight))
        if what == "repeat":
            self.in_flight.append(self.in_flight[at])
        elif what == "lose":
            del self.in_flight[at]
        else:
            self.deliver(at)

    def _crash_or_start(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        if node.machine is None:
            self.start(node)
        else:
            self.crash(node)

    def _wipe(self) -> None:
        """Only while everybody else has all it ever had: more than one loss at a time is too much."""
        for node in self.nodes.values():
            if node.replica is not None and node.replica.core.state.is_member:
                node.is_wiped = False
        whole = not any(node.is_wiped for node in self.nodes.values())
        node = self.random.choice(list(self.nodes.values()))
        if whole and self.may_wipe(node) and node.machine is not None:
            self.wipe(node)

    def may_wipe(self, node: WorldNode) -> bool:
        return True

    def operate(self) -> None:
        """The operator does something; a subclass knows what."""

    # What must hold

    def _check(self, node: WorldNode) -> None:
        machine, replica = node.machine, node.replica
        if machine is None or replica is None:
            self._floors.pop(node.name, None)
            return
        broken = [f"{each.invariant} {each.what}" for each in machine.invariants()]
        assert not broken, f"{node.name}: {broken}"
        self._check_floors(node, replica)
        assert isinstance(replica.machine, ListMachine)
        entries = replica.machine.entries
        first = entries[0][1] if entries else 0
        seen = self._seen.get(node.name, (0, 0))
        start = seen[1] if seen[0] == first and seen[1] <= len(entries) else 0
        for entry in entries[start:]:
            known = self.applied.setdefault(entry[1], entry)
            assert known == entry, f"{node.name} applies {entry}, it was {known}"
        self._seen[node.name] = first, len(entries)
        if replica.is_serving:
            newest = max(self.applied, default=0)
            # Another may lead a higher epoch already; this one then has no business with what it applied.
            if newest in self.applied and self.applied[newest][0] <= replica.epoch:
                assert replica.head.offset >= newest, f"{node.name} serves without {newest}"

    def _check_floors(self, node: WorldNode, replica: ShardReplica) -> None:
        state = replica.core.state
        if state.recovery is not None or not state.is_member:
            self._floors.pop(node.name, None)  # who does not count may be made anew by a snapshot
            return
        now = state.epoch, state.commit_index.offset, state.applied
        before = self._floors.get(node.name, (0, 0, 0))
        assert all(a <= b for a, b in zip(before, now, strict=True)), f"I1 {before} {now}"
        self._floors[node.name] = now
