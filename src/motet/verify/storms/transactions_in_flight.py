"""What is looked at after every step of a data node.

Grounded       where nothing is on its way into a log, no key and no transaction is waited for
K1             the clock of a node never falls, over all its incarnations
"""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Effect, Event
from motet.core.streams.node import DataNode
from motet.ids import Address
from motet.sim.host import Host
from motet.sim.world import World


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
