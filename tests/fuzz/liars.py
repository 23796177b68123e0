"""A simulated cluster with a liar in it: it speaks as every peer and as clients, and is gone in the end.

The clusters are those of ``motet simulate``, with their clients as traffic. While the liar speaks, nodes
crash and come back. Then it falls silent and all nodes are started again; whoever comes new to the cluster
must get its work done, and once more when every node has been restarted.

Nothing is checked of what clients see: whoever speaks in their names may write into their streams. What is
checked after each step of a machine is that it took the step, and that its own invariants hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
from tests.fuzz.hostile import Forger
from tests.fuzz.probes import Probe, probe_for

from motet.core.clock.cluster_time import PingClock, PongClock
from motet.core.clock.node_time import NodeTime
from motet.core.clock.time_peer import TimePeer
from motet.core.keeper.front.node import KeeperNode
from motet.core.keeper.messages import CONNECTION_PREFIX, FromConnection
from motet.core.machine import NS_PER_MS, Effect, Event, Machine, Message, Received, Send, Violation
from motet.core.onelog.machine import StreamsMachine
from motet.core.onelog.messages import StreamsCall
from motet.core.streams.messages import DataCall
from motet.core.streams.node import DataNode
from motet.core.vsr.messages import VsrCall
from motet.core.vsr.replica import Replica
from motet.ids import Address, NodeId
from motet.node.hosts import OperatorInbox
from motet.sim.faults import Faults, NodeFaults
from motet.sim.host import Host, Stepper
from motet.sim.nemesis import Nemesis
from motet.sim.world import World
from motet.verify.storms import storm_named
from motet.verify.storms.streams_store import StoredOperator

TIME_CALL = PingClock | PongClock

DOORS: dict[type, object] = {
    Replica: VsrCall,
    KeeperNode: VsrCall,
    DataNode: DataCall,
    StoredOperator: OperatorInbox,
    StreamsMachine: StreamsCall,
    TimePeer: TIME_CALL,
}
"""What each machine takes in from the network, as the node that hosts it decodes it."""

RESTARTING = Faults(nodes=NodeFaults(crash_interval_ms=500, down_ms_max=200))
between_us_max = 4_000
probe_ms = 60_000


def door_of(machine: object) -> object | None:
    """The union that a machine decodes; None: it is no machine of ours."""
    for kind, union in DOORS.items():
        if isinstance(machine, kind):
            return union
    return None


class LiarWorld(World):
    """Looks at machines alone: what clients and checkers find wrong may be what the liar has asked for."""

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.hearers: list[Liar] = []

    def guard_clients(self) -> None:
        """A client that cannot cope with what it is told stops working, and that is all."""
        for node in self.nodes.values():
            for host in node.hosts.values():
                if node.immune:
                    host.step = _guarded(host)  # type: ignore[method-assign]

    def stepped(self, host: Host, event: Event, effects: list[Effect]) -> None:
        if not host.node.immune:
            machine: Machine = host.machine  # type: ignore[assignment]
            self.violations += [
                Violation(each.invariant, f"{host.label}: {each.what}")
                for each in machine.invariants()
            ]
        for hearer in self.hearers:
            hearer.hear(event, effects)
        for observer in self._observers:
            try:
                observer(host, event, effects)
            except Exception:
                continue

    def violated(self, invariant: str, what: str) -> None:
        """What a checker finds is not counted."""

    def _broken(self, error: Exception) -> None:
        trace = error.__traceback__
        places = []
        while trace is not None:
            code = trace.tb_frame.f_code
            places.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
            trace = trace.tb_next
        where = " < ".join(reversed(places[-4:]))
        self.violations.append(Violation(type(error).__name__, f"{error} ({where})"))


def _guarded(host: Host):  # type: ignore[no-untyped-def]
    step = host.step

    def guarded(event: Event) -> None:
        try:
            step(event)
        except Exception:
            host.listening = False

    return guarded


class Liar:
    """Speaks to every node, in everybody's name."""

    def __init__(self, world: LiarWorld, seed: int, mode: str) -> None:
        self._world = world
        self._dice = random.Random(seed)
        self.is_speaking = True
        self.hosts = [
            host
            for node in world.nodes.values()
            if not node.immune
            for host in node.hosts.values()
            if door_of(host.machine) is not None
        ]
        unions = [door_of(host.machine) for host in self.hosts]
        self.forgers = {id(union): Forger(union, self._dice, mode) for union in unions}
        self._connecting = Forger(FromConnection, self._dice, mode)
        self.said = 0
        #: for a finding: the last ones that were said
        self.last: list[str] = []
        world.hearers.append(self)
        self._again()

    def hear(self, event: Event, effects: list[Effect]) -> None:
        heard = [effect.message for effect in effects if type(effect) is Send]
        if isinstance(event, Received):
            heard.append(event.message)
        for message in heard:
            self._connecting.hear(message)
            for forger in self.forgers.values():
                forger.hear(message)

    def _again(self) -> None:
        after_ns = self._dice.randint(1, between_us_max) * 1_000
        self._world.at(after_ns, self._speak)

    def _speak(self) -> None:
        if not self.is_speaking:
            return
        self._again()
        host = self._dice.choice(self.hosts)
        if not host.listening or host.node.paused_until_ns >= self._world.virtual.elapsed_ns:
            return
        is_connection = isinstance(host.machine, KeeperNode) and self._dice.random() < 0.3
        forger = self._connecting if is_connection else self.forgers[id(door_of(host.machine))]
        message = forger.forge()
        if message is None:
            return
        sender = self._sender(host, message)
        if is_connection:
            sender = Address(f"{CONNECTION_PREFIX}liar-{self._dice.randint(1, 20)}")
        self.said += 1
        self.last = [*self.last[-4:], f"{sender} -> {host.label} {message!r}"]
        host.step(Received(host.node.time.now(), sender, message))

    def _sender(self, host: Host, message: Message) -> Address:
        """Most often one of its peers, and the one that the message says it is from."""
        replica = getattr(message, "replica", None)
        is_honest = self._dice.random() < 0.8
        if is_honest and isinstance(replica, int) and 0 <= replica < len(self.hosts):
            return self.hosts[replica].node.address
        peers = [each.node.address for each in self.hosts if each is not host]
        return self._dice.choice([*peers, *peers, Address("client-9")])


class Verdict(msgspec.Struct):
    """What came of a run."""

    findings: list[str]
    said: int
    forgers: list[Forger]
    last: list[str]


def lie_to(
    part_name: str,
    seed: int,
    mode: str,
    *,
    faults: Faults = RESTARTING,
    storm_ms: int = 4_000,
) -> Verdict:
    """Run a part of the system with a liar in it."""
    world = LiarWorld(seed, faults)
    run = storm_named(part_name).prepare(world, None)
    agree_on_time(world)
    liar = Liar(world, seed, mode)
    nemesis = Nemesis(world, lambda fault, node: fault == "crash" and run.permits(fault, node))
    for node in world.nodes.values():
        world.start(node)
    world.guard_clients()
    nemesis.unleash()
    world.run(storm_ms)
    liar.is_speaking = False
    nemesis.stop()
    for number in (1, 2):
        _probe(world, probe_for(part_name, run, world, number, mode))
        for node in world.nodes.values():
            if node.up and not node.immune and not world.violations:
                world.crash(node)
                world.start(node)
    findings = [f"{each.invariant}: {each.what}" for each in world.violations]
    return Verdict(findings, liar.said, list(liar.forgers.values()), liar.last)


def agree_on_time(world: LiarWorld) -> None:
    """Data nodes ask each other for the time, as in a real cluster: else they cannot judge a clock."""
    hosts = [host for node in world.nodes.values() for host in node.hosts.values()]
    hosts = [host for host in hosts if isinstance(host.machine, DataNode)]
    names = tuple(NodeId(host.node.address) for host in hosts)
    for host in hosts:
        host.factory = _with_time(host.factory, names)
        host.machine = host.factory()


def _with_time(make: Callable[[], Stepper], names: tuple[NodeId, ...]) -> Callable[[], Stepper]:
    def made() -> Stepper:
        node = make()
        assert isinstance(node, DataNode)
        node.state.time = NodeTime.of(node.own, names)
        return node

    return made


def _probe(world: LiarWorld, probe: Probe) -> None:
    if world.violations:
        return
    probe.begin()
    until_ms = world.virtual.elapsed_ns // NS_PER_MS + probe_ms
    if not world.run(until_ms, probe.is_done) and not world.violations:
        world.violations.append(Violation("liveness", f"the liar is gone, and {probe.why()}"))
