"""Faults at the worst moments of a commit, and what of transactions a change of leader has met.

A decision that was just logged is on its way to the participants. Here the ways between the two leaders are
clogged or cut, for a moment or for longer than anybody remembers; or the home shard's leader dies. Most often
so when it has taken long to be decided: then much was logged between the prepare and the decision, and much
will be between the decision and the outcome. A leader that carries changes on dies at any step of it, or is
slow at it.

Streams that are created in the storm: each begins above every clock that anybody was told before.

Created        the first entry of a shard is above all clocks handed out before its stream was asked for

What is looked at after every step of a data node.

Grounded       where nothing is on its way into a log, no key and no transaction is waited for
K1             the clock of a node never falls, over all its incarnations
"""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import NS_PER_MS, Effect, Event, Note, Received, Send
from motet.core.metadata.definitions import shard_names
from motet.core.shardlog.entry import EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.cluster_messages import CreateStream
from motet.core.streams.messages import (
    CommitTransaction,
    PrepareTransaction,
    RecordsAppended,
    ResolveTransaction,
    ShardClosed,
    ShardFeed,
    TransactionEnded,
)
from motet.core.streams.node import DataNode
from motet.core.streams.shard import machine_of
from motet.ids import Address, LogName, ShardName
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.world import SimNode, World
from motet.verify.storms.streams_checks import Watch

WAITS = "transaction_waited"
HOME_LEADER_CHANGED = "home_leader_changed"
LOCKS_INHERITED = "locks_inherited"
CLOSED_INHERITED = "closed_clock_inherited"
ADJUST_MISSED = "adjust_missed"
COMPACTER_CRASHED = "carrier_crashed"
clog_share, crash_share, compacter_crash_share = 0.12, 0.02, 0.05
late_ms, late_clog_share = 40, 0.6
down_ms_max = 500


class Aims:
    """Watches the commits of one run, and strikes."""

    def __init__(self, world: World, dice: Dice, *, strikes: bool) -> None:
        self._world = world
        self._dice = dice
        self._strikes = strikes

    def saw(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        """A step of anybody."""
        if not isinstance(host.machine, DataNode):
            return
        for effect in effects:
            if isinstance(effect, Note):
                self._note(host.machine, effect)
            elif isinstance(effect, Send):
                self._sent(host, effect)
        for shard, ours in host.machine.state.requests.of_shards.items():
            if any(
                isinstance(w.message, PrepareTransaction | CommitTransaction) for w in ours.waiting
            ):
                self._world.mark(WAITS)
            if ours.compaction is not None and self._strikes:
                self._strike_compacter(host, host.machine.shards.replica(LogName(shard)))

    def _note(self, machine: DataNode, note: Note) -> None:
        if note.what.startswith("transaction_"):
            self._world.mark(note.what)
        elif note.what == "shard_leads":
            self._inherits(machine, ShardName(note.detail.partition(" ")[0]))

    def _inherits(self, machine: DataNode, shard: ShardName) -> None:
        """A leader begins: what of transactions does it find in its log?"""
        replica = machine.shards.replica(LogName(shard))
        if replica is None:
            return
        state = machine_of(replica).state.transactions
        if state.decisions:
            self._world.mark(HOME_LEADER_CHANGED)
        if state.locks:
            self._world.mark(LOCKS_INHERITED)
        if any(entry.kind == EntryKind.CLOSED for entry in replica.core.state.log.tail):
            self._world.mark(CLOSED_INHERITED)

    def _sent(self, host: Host, send: Send) -> None:
        if isinstance(send.message, TransactionEnded):
            is_settled = send.message.is_settled
            self._world.mark("commit_settled" if is_settled else ADJUST_MISSED)
        elif isinstance(send.message, ResolveTransaction) and self._strikes:
            self._strike(host, send, send.message)

    def _strike(self, host: Host, send: Send, message: ResolveTransaction) -> None:
        world, dice = self._world, self._dice
        if world.fabric.healed:
            return
        if dice.chance(late_clog_share if _is_late(message) else clog_share):
            links = [(host.node.address, send.to), (send.to, host.node.address)]
            for_ms = dice.pick([40, 200, 1_000, 2_500])
            if dice.chance(0.5):
                until_ns = world.virtual.elapsed_ns + for_ms * NS_PER_MS
                world.fabric.clogged.update(dict.fromkeys(links, until_ns))
                world.mark("decision_delayed")
            else:
                world.fabric.blocked.update(dict.fromkeys(links))
                world.at(for_ms * NS_PER_MS, self._unblock, (links,))
                world.mark("decision_lost")
        elif dice.chance(crash_share) and host.node.up:
            world.mark("decider_crashed")
            world.at(0, self._crash, (host.node,))

    def _strike_compacter(self, host: Host, replica: ShardReplica | None) -> None:
        """A leader is about to carry changes on, reads them, or has some of them in its log.

        It dies; or its followers hear of it late.
        """
        world, dice = self._world, self._dice
        if replica is None or not host.node.up or world.fabric.healed:
            return
        if dice.chance(compacter_crash_share):
            world.mark(COMPACTER_CRASHED)
            world.at(0, self._crash, (host.node,))
        elif dice.chance(clog_share):
            until_ns = world.virtual.elapsed_ns + dice.pick([100, 400]) * NS_PER_MS
            links = [(host.node.address, Address(node)) for node in replica.core.state.cursors]
            world.fabric.clogged.update(dict.fromkeys(links, until_ns))
            world.mark("carrier_delayed")

    def _unblock(self, links: list[tuple[Address, Address]]) -> None:
        for link in links:
            self._world.fabric.blocked.pop(link, None)

    def _crash(self, node: SimNode) -> None:
        if node.up and not self._world.fabric.healed:
            self._world.crash(node)
            down_ms = self._dice.between(1, down_ms_max)
            self._world.at(down_ms * NS_PER_MS, self._restart, (node,))

    def _restart(self, node: SimNode) -> None:
        if not node.up:
            self._world.start(node)


def _is_late(message: ResolveTransaction) -> bool:
    """Whether it has taken long to decide to commit."""
    clock = message.clock
    return clock is not None and clock.logical - message.asked.logical > late_ms


class Births:
    """What was handed out when streams were asked for."""

    def __init__(self, world: World, watch: Watch) -> None:
        self._world = world
        self._watch = watch
        self._told = ZERO
        #: shard -> what was told when its stream was first asked for
        self._floors: dict[ShardName, Clock] = {}

    def saw(self, _host: Host, event: Event, effects: list[Effect]) -> None:
        """A step of anybody."""
        if isinstance(event, Received):
            told = _clock_in(event.message)
            if told is not None and told > self._told:
                self._told = told
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, CreateStream):
                for shard in shard_names(effect.message.definition):
                    self._floors.setdefault(shard, self._told)

    def check(self) -> None:
        """In the end."""
        for shard, floor in self._floors.items():
            truth = self._watch.truth(shard)
            if truth.head == 0:
                continue
            first = truth.entries[truth.ids[1]]
            if floor > ZERO:
                self._world.mark("stream_created_in_storm")
            if first.clock <= floor:
                what = f"{shard} begins at {first.clock}, and {floor} had been told"
                self._world.violated("Created", what)


def _clock_in(message: object) -> Clock | None:
    """The clock that a client was told."""
    if isinstance(message, ShardClosed | ShardFeed):
        return message.closed
    if isinstance(message, TransactionEnded):
        return message.clock
    if isinstance(message, RecordsAppended):
        return max(place.clock for place in message.places)
    return None


class InFlights:
    """Looks at the requests of all nodes, after every step."""

    def __init__(self, world: World) -> None:
        self._world = world

    def saw(self, host: Host, _event: Event, _effects: list[Effect]) -> None:
        """A step of anybody."""
        if not isinstance(host.machine, DataNode):
            return
        for shard, ours in host.machine.state.requests.of_shards.items():
            if not ours.in_flight and (ours.in_flight_transactions or ours.in_flight_keys):
                left = [*ours.in_flight_transactions, *ours.in_flight_keys]
                self._world.violated("Grounded", f"{host.label} {shard}: {left} wait for nothing")


class Clocks:
    """Looks at the clock of each node, over all its lives: as long as it has its disk, it only rises."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._highest: dict[Address, Clock] = {}

    def wiped(self, node: Address) -> None:
        """It has lost its disk, and with that its clock."""
        self._highest.pop(node, None)

    def saw(self, host: Host, _event: Event, _effects: list[Effect]) -> None:
        """A step of anybody."""
        machine = host.machine
        if not isinstance(machine, DataNode) or machine.state.clock.reservation is None:
            return
        node, last = host.node.address, machine.state.clock.reservation.last
        highest = self._highest.get(node, ZERO)
        if last < highest:
            self._world.violated("K1", f"{node} is at {last}, and has handed out {highest}")
        self._highest[node] = max(last, highest)
