"""Connections between clients and nodes: reliable and in order, until they break.

The network of a simulated world loses, repeats and reorders; what a ZooKeeper client has is a TCP connection.
So these messages go another way, over a wire of their own.

W1  What is sent over a wire arrives once, in order, or not at all; and if not, then nothing after it does.
W2  Who is cut off from the other side waits: what was sent arrives when the cut is healed, unless somebody
    has lost patience.
W3  A wire ends when its node stops, when its client leaves, or because it was reset. Each side learns of it
    in its own time; the client of a node that has stopped, when it looks.
W4  A client may leave without a word. Its node finds out late, and some of what it still had to hear arrives.

A fault of its own: a primary is cut off from other replicas, but not from clients, until another leads.

It goes on for a while as if nothing had been: what it prepares alone is never committed, and what it would
answer alone is old.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.core.keeper.messages import CONNECTION_PREFIX, Gone, is_connection
from motet.core.machine import NS_PER_MS, Effect, Event, Message, Received, Send
from motet.core.render import render
from motet.ids import Address
from motet.sim import trace as glyph
from motet.sim.host import Host
from motet.sim.network import NS_PER_US
from motet.sim.world import World

retry_ms = 20
"""How often something that cannot get through tries again."""

unnoticed_ms_max = 1_500
"""How long a node believes in a client that has left without a word."""

DELAYS_US = ((50, 500), (50, 500), (500, 5_000), (5_000, 60_000))
"""How long a wire takes, drawn for each: least and most."""


class Lost(Message, frozen=True, tag=True):
    """To a client: the connection is no more."""


class Wire:
    """One connection."""

    def __init__(
        self, address: Address, client: Host, node: Host, delay_us: tuple[int, int]
    ) -> None:
        self.address = address
        self.client = client
        self.node = node
        self.delay_us = delay_us
        self.incarnation = node.node.incarnation
        #: on their way, the oldest first
        self.to_node: list[Message] = []
        self.to_client: list[Message] = []
        #: when the newest of them arrives
        self.to_node_ns = self.to_client_ns = 0
        #: nothing passes any more
        self.is_cut = False
        self.has_client = True

    @property
    def is_dead(self) -> bool:
        """Its node has stopped."""
        return self.incarnation != self.node.node.incarnation

    @property
    def is_idle(self) -> bool:
        return not self.to_node and not self.to_client


class Wires:
    """All of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = world.dice.fork("wires")
        self._count = 0
        self._reset_interval_ms = self._dice.pick([0, 0, 300, 1_000])
        self.by_address: dict[Address, Wire] = {}
        world.observe(self._saw)
        if self._reset_interval_ms:
            self._reset_later()

    # For clients

    def open(self, client: Host, node: Host) -> Wire | None:
        """A new connection; None if nobody answers there."""
        blocked = self._world.fabric.blocked
        link = (client.node.address, node.node.address)
        if not node.node.up or not node.listening or link in blocked or link[::-1] in blocked:
            return None
        self._count += 1
        address = Address(f"{CONNECTION_PREFIX}{self._count}")
        wire = self.by_address[address] = Wire(address, client, node, self._dice.pick(DELAYS_US))
        return wire

    def leave(self, wire: Wire) -> None:
        """The client is gone without a word (W4)."""
        wire.has_client = False
        after_ms = self._dice.between(0, unnoticed_ms_max)
        self._world.at(after_ms * NS_PER_MS, self._tell_node, (wire,))

    def live(self, address: Address | None) -> Wire | None:
        """The wire, if messages can still pass."""
        wire = None if address is None else self.by_address.get(address)
        return None if wire is None or wire.is_cut or wire.is_dead else wire

    # Sending

    def _saw(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Send and is_connection(effect.to):
                wire = self.by_address[effect.to]
                if host is wire.client:
                    self._send_to_node(wire, effect.message)
                else:
                    self._send_to_client(wire, effect.message)

    def _send_to_node(self, wire: Wire, message: Message) -> None:
        wire.to_node.append(message)
        wire.to_node_ns = self._arrival_ns(wire, wire.to_node_ns)
        self._pass_to_node(wire, wire.to_node_ns - self._world.virtual.elapsed_ns)

    def _send_to_client(self, wire: Wire, message: Message) -> None:
        wire.to_client.append(message)
        wire.to_client_ns = self._arrival_ns(wire, wire.to_client_ns)
        after_ns = wire.to_client_ns - self._world.virtual.elapsed_ns
        self._world.at(after_ns, self._arrive_at_client, (wire,))

    def _arrival_ns(self, wire: Wire, newest_ns: int) -> int:
        delay_ns = self._dice.between(*wire.delay_us) * NS_PER_US
        return max(self._world.virtual.elapsed_ns + delay_ns, newest_ns)

    # Arriving: as many times as there are messages on their way, each time the oldest of them (W1)

    def _pass_to_node(self, wire: Wire, after_ns: int) -> None:
        self._world.at_node(wire.node.node, after_ns, self._arrive_at_node, (wire,))

    def _arrive_at_node(self, wire: Wire) -> None:
        if wire.is_cut or wire.is_dead or not wire.node.listening:
            wire.to_node.clear()
        elif self._is_stopped(wire.client, wire.node):
            self._pass_to_node(wire, retry_ms * NS_PER_MS)
        elif wire.to_node:
            self._step(wire.node, wire, wire.to_node.pop(0))

    def _arrive_at_client(self, wire: Wire) -> None:
        if wire.is_dead and not wire.is_cut:
            wire.is_cut = self._dice.chance(0.5)  # what was on its way arrives, or not
        if wire.is_cut or not wire.has_client:
            wire.to_client.clear()
        elif self._is_stopped(wire.node, wire.client):
            self._world.at(retry_ms * NS_PER_MS, self._arrive_at_client, (wire,))
        elif wire.to_client:
            self._step(wire.client, wire, wire.to_client.pop(0))

    def _is_stopped(self, sender: Host, to: Host) -> bool:
        """W2."""
        fabric, link = self._world.fabric, (sender.node.address, to.node.address)
        return (
            link in fabric.blocked or fabric.clogged.get(link, 0) > self._world.virtual.elapsed_ns
        )

    def _step(self, host: Host, wire: Wire, message: Message) -> None:
        if self._world.trace is not None:
            self._world.record(host.label, glyph.RECEIVED, f"{wire.address} {render(message)}")
        host.step(Received(host.node.time.now(), wire.address, message))

    # Breaking

    def _reset_later(self) -> None:
        after_ms = self._dice.between(1, 2 * self._reset_interval_ms)
        self._world.at(after_ms * NS_PER_MS, self._reset)

    def _reset(self) -> None:
        if self._world.fabric.healed:
            return
        open_now = [wire for wire in self.by_address.values() if wire.has_client]
        usable = [wire for wire in open_now if self.live(wire.address) is not None]
        if usable:
            wire = self._dice.pick(usable)
            self._world.mark("connection_reset")
            self._world.record(wire.address, glyph.FAULT, "reset")
            wire.is_cut = True
            self._soon(self._tell_client, wire)
            self._soon(self._tell_node, wire)
        self._reset_later()

    def _soon(self, tell: Callable[[Wire], None], wire: Wire) -> None:
        after_ms = self._dice.pick([0, 1, 20, 300])
        self._world.at(after_ms * NS_PER_MS, tell, (wire,))

    def _tell_client(self, wire: Wire) -> None:
        if wire.has_client:
            self._step(wire.client, wire, Lost())

    def _tell_node(self, wire: Wire) -> None:
        """That it has nobody to talk to any more; a node that is down or deaf need not be told."""
        node = wire.node.node
        self._world.at_node(node, 0, self._tell_node_now, (wire,))

    def _tell_node_now(self, wire: Wire) -> None:
        if not wire.is_dead and wire.node.listening:
            wire.is_cut = True
            self._step(wire.node, wire, Gone())
