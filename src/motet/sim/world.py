"""The world of one simulated run: virtual time, an agenda, nodes, and a network between them.

Nothing happens but what is on the agenda; the world takes the earliest entry, sets virtual time to it,
and runs it. Entries for the same moment run in the order in which they were made, so there is exactly
one order for one seed. A crash forgets a node's machines and what they were waiting for; their files
stay, as far as they were durable.
"""

from __future__ import annotations

import heapq
import traceback
from collections.abc import Callable

from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Event,
    Machine,
    Message,
    Received,
    Send,
    Started,
    Violation,
)
from motet.core.render import render
from motet.ids import Address
from motet.limits import simulation_events_max
from motet.sim import trace as glyph
from motet.sim.dice import Dice
from motet.sim.disk import SimDisk
from motet.sim.faults import Faults
from motet.sim.host import Host, Stepper
from motet.sim.network import Fabric, LateMessages
from motet.sim.time import SimTime, VirtualTime
from motet.sim.trace import Trace

AWAKE = -1
"""Paused until before all time."""

Observer = Callable[[Host, Event, list[Effect]], None]
"""Sees every step after it was taken: checkers that watch a run."""


class SimNode:
    """A process: the machines that live and die together, and their two clocks."""

    def __init__(self, address: Address, time: SimTime, *, immune: bool) -> None:
        self.address = address
        self.time = time
        #: faults leave it alone: a client is part of the experiment, not of what is tested
        self.immune = immune
        self.hosts: dict[str, Host] = {}
        self.up = False
        #: what belongs to an older incarnation is dropped when its time comes
        self.incarnation = 0
        self.paused_until_ns = AWAKE
        #: what has happened to it in a pause, in order
        self.put_off: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        #: called when a change to the disk begins: the nemesis strikes while it is under way
        self.ambush: Callable[[], None] | None = None


class World:
    """All nodes of one run, in one thread, moved by one agenda."""

    def __init__(self, seed: int, faults: Faults, trace: Trace | None = None) -> None:
        self.seed = seed
        self.dice = Dice(seed)
        self.faults = faults
        self.trace = trace
        self.virtual = VirtualTime()
        self.fabric = Fabric(self.dice.fork("network"), faults.network)
        self.nodes: dict[Address, SimNode] = {}
        self.violations: list[Violation] = []
        #: note or fault -> how often it was seen
        self.marks: dict[str, int] = {}
        self.events = 0
        #: keeps messages and delivers them in later lives, in parts that ask for it
        self.late: LateMessages | None = None
        self._observers: list[Observer] = []
        self._agenda: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._entries = 0
        self._fates_ns = self.fabric.fates_ns
        self._entropy = self.dice.fork("entropy")
        self._time_dice = self.dice.fork("time")
        self._crash_dice = self.dice.fork("crash")

    # Building a world

    def add_node(self, name: str, *, immune: bool = False) -> SimNode:
        """A process without machines yet."""
        assert name not in self.nodes
        limits = self.faults.time
        rate_ppm = skew_ms = 0
        if not immune:
            rate_ppm = self._time_dice.between(-limits.rate_ppm_max, limits.rate_ppm_max)
            skew_ms = self._time_dice.between(-limits.skew_ms_max, limits.skew_ms_max)
        time = SimTime(self.virtual, rate_ppm=rate_ppm, skew_ms=skew_ms)
        node = self.nodes[Address(name)] = SimNode(Address(name), time, immune=immune)
        return node

    def host(self, node: SimNode, name: str, factory: Callable[[], Stepper]) -> Host:
        """Put a machine on a node; machines of one name talk to each other across nodes."""
        disk = SimDisk(self.dice.fork(f"disk.{node.address}.{name}"), self.faults.disk)
        node.hosts[name] = Host(self, node, name, factory, disk)
        return node.hosts[name]

    def observe(self, observer: Observer) -> None:
        """Have every step shown to this observer."""
        self._observers.append(observer)

    # Running

    def run(self, until_ms: int, done: Callable[[], bool] | None = None) -> bool:
        """Run until that virtual time or until done; False on a violation, or if it was not done by then."""
        agenda, pop = self._agenda, heapq.heappop
        until_ns = until_ms * NS_PER_MS
        virtual = self.virtual
        while agenda and agenda[0][0] <= until_ns:
            if self.violations or self.events >= simulation_events_max:
                return False
            if done is not None and done():
                return True
            at_ns, _, action, args = pop(agenda)
            virtual.elapsed_ns = at_ns
            self.events += 1
            try:
                action(*args)
            except Exception as error:  # any error in a step is a finding
                self._broken(error)
        if self.violations:
            return False
        virtual.elapsed_ns = max(virtual.elapsed_ns, until_ns)
        return done is None or done()

    def at(self, after_ns: int, action: Callable[..., None], args: tuple[object, ...] = ()) -> None:
        """Put something on the agenda."""
        self._entries += 1
        at_ns = self.virtual.elapsed_ns + after_ns
        heapq.heappush(self._agenda, (at_ns, self._entries, action, args))

    def at_node(
        self, node: SimNode, after_ns: int, action: Callable[..., None], args: tuple[object, ...]
    ) -> None:
        """Put something on the agenda that happens only if this incarnation of the node still lives."""
        self.at(after_ns, self._on_node, (node, node.incarnation, action, args))

    def _on_node(
        self,
        node: SimNode,
        incarnation: int,
        action: Callable[..., None],
        args: tuple[object, ...],
    ) -> None:
        if node.incarnation != incarnation:
            return
        if node.paused_until_ns >= self.virtual.elapsed_ns:
            self._put_off(node, action, args)
            return
        action(*args)

    # Messages

    def transmit(self, host: Host, send: Send) -> None:
        """Give a message to the network."""
        sender, to = host.node.address, send.to
        if self.trace is not None:
            self.record(host.label, glyph.SENT, f"{to} {render(send.message)}")
        node = self.nodes.get(to)
        if node is None:
            return  # nobody of that name: lost, as on a real network
        incarnation = host.node.incarnation
        for delay_ns in self._fates_ns(sender, to, self.virtual.elapsed_ns):
            args = (node, host.name, host.node, incarnation, send.message)
            self.at(delay_ns, self._arrive, args)
        if self.late is not None:
            self.late.sent(node, host.name, host.node, send.message)

    def _arrive(
        self, node: SimNode, name: str, sender: SimNode, incarnation: int, message: Message
    ) -> None:
        host = node.hosts.get(name)
        if host is None or not host.listening:
            return
        if sender.incarnation != incarnation and self._crash_dice.chance(self.faults.nodes.unsent):
            return
        if node.paused_until_ns >= self.virtual.elapsed_ns:
            self._put_off(node, self._arrive, (node, name, sender, incarnation, message))
            return
        self._receive(host, sender, message)

    def deliver(self, node: SimNode, name: str, sender: SimNode, message: Message) -> None:
        """Let a message arrive now, however long ago it was sent."""
        host = node.hosts.get(name)
        if host is None or not host.listening:
            return
        if node.paused_until_ns >= self.virtual.elapsed_ns:
            self._put_off(node, self.deliver, (node, name, sender, message))
            return
        self._receive(host, sender, message)

    def _receive(self, host: Host, sender: SimNode, message: Message) -> None:
        if self.trace is not None:
            self.record(host.label, glyph.RECEIVED, f"{sender.address} {render(message)}")
        self.fabric.counts.delivered += 1
        host.step(Received(host.node.time.now(), sender.address, message))

    # The lives of nodes

    def start(self, node: SimNode) -> None:
        """Begin an incarnation: fresh machines, told by ``Started``."""
        assert not node.up
        node.up = True
        node.incarnation += 1
        if not node.immune and self.faults.time.uptime_ms_max:
            node.time.reboot(self._time_dice.between(0, self.faults.time.uptime_ms_max))
        for host in node.hosts.values():
            host.reset()
        for host in node.hosts.values():
            if self.trace is not None:
                self.record(host.label, glyph.STARTED, f"incarnation {node.incarnation}")
            nonce = self._entropy.nonce()
            self.at_node(node, 0, self._begin, (host, nonce))
        if self.late is not None:
            self.late.started(node)

    def _begin(self, host: Host, nonce: int) -> None:
        host.listening = True
        host.step(Started(host.node.time.now(), nonce))

    def crash(self, node: SimNode) -> None:
        """kill -9, and the power with it."""
        assert node.up
        node.up = False
        node.incarnation += 1
        node.ambush = None
        node.paused_until_ns = AWAKE
        node.put_off = []
        self.fabric.disconnect(node.address)
        self.record(node.address, glyph.CRASHED, "crash")
        for host in node.hosts.values():
            host.listening = False
            for mark in host.disk.crash():
                self.mark(mark)
                self.record(host.label, glyph.FAULT, mark)
            if host.workshop is not None:
                host.workshop.crash()

    def pause(self, node: SimNode, pause_ms: int) -> None:
        """Let a node stand still: what happens to it meanwhile, it sees afterwards, in order."""
        until_ns = self.virtual.elapsed_ns + pause_ms * NS_PER_MS
        node.paused_until_ns = max(node.paused_until_ns, until_ns)

    def resume(self, node: SimNode) -> None:
        """Let a node go on, whether its pause is over or not."""
        node.paused_until_ns = AWAKE
        put_off, node.put_off = node.put_off, []
        for action, args in put_off:
            action(*args)

    def _put_off(
        self, node: SimNode, action: Callable[..., None], args: tuple[object, ...]
    ) -> None:
        if not node.put_off:
            self._resume_later(node, node.incarnation)
        node.put_off.append((action, args))

    def _resume_later(self, node: SimNode, incarnation: int) -> None:
        wait_ns = node.paused_until_ns - self.virtual.elapsed_ns
        self.at(wait_ns, self._resume_if_due, (node, incarnation))

    def _resume_if_due(self, node: SimNode, incarnation: int) -> None:
        if node.incarnation != incarnation or not node.put_off:
            return
        if node.paused_until_ns > self.virtual.elapsed_ns:
            self._resume_later(node, incarnation)
        else:
            self.resume(node)

    # What is seen

    def stepped(self, host: Host, event: Event, effects: list[Effect]) -> None:
        """Called by a host after each step: check the machine's own invariants, tell the observers."""
        if not host.node.immune:
            machine: Machine = host.machine  # type: ignore[assignment]
            for violation in machine.invariants():
                self.violated(violation.invariant, f"{host.label}: {violation.what}")
        for observer in self._observers:
            observer(host, event, effects)

    def mark(self, what: str) -> None:
        """Count a note or fault."""
        self.marks[what] = self.marks.get(what, 0) + 1

    def record(self, who: str, sign: str, what: str) -> None:
        """A line in the trace, if there is one."""
        if self.trace is not None:
            self.trace.add(self.virtual.elapsed_ns, who, sign, what)

    def violated(self, invariant: str, what: str) -> None:
        """Something that must never happen has happened; the run ends here."""
        self.violations.append(Violation(invariant, what))
        self.record("world", glyph.FAULT, f"violates {invariant}: {what}")

    def _broken(self, error: Exception) -> None:
        where = traceback.extract_tb(error.__traceback__)[-1]
        kind = "assertion" if isinstance(error, AssertionError) else type(error).__name__
        self.violated(kind, f"{error} (in {where.name}, line {where.lineno})")
