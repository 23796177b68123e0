"""What leaders take for being on its way into their logs.

Grounded       where nothing is on its way, no key and no transaction is waited for
"""

from __future__ import annotations

from motet.core.datanode.node import DataNode
from motet.core.machine import Effect, Event
from motet.sim.host import Host
from motet.sim.world import World


class Flights:
    """Looks at the errands of all nodes, after every step."""

    def __init__(self, world: World) -> None:
        self._world = world

    def saw(self, host: Host, _event: Event, _effects: list[Effect]) -> None:
        """A step of anybody."""
        if not isinstance(host.machine, DataNode):
            return
        for shard, ours in host.machine.state.errands.of_shards.items():
            if not ours.flights and (ours.flying or ours.flying_keys):
                left = [*ours.flying, *ours.flying_keys]
                self._world.violated("Grounded", f"{host.label} {shard}: {left} wait for nothing")
