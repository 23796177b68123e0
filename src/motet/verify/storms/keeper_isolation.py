"""A fault of its own: a primary is cut off from other replicas, but not from clients, until another leads.

It goes on for a while as if nothing had been: what it prepares alone is never committed, and what it would
answer alone is old.
"""

from __future__ import annotations

from collections.abc import Sequence

from motet.core.machine import NS_PER_MS
from motet.sim import trace as glyph
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.storms.vsr_calm import core_of

interval_ms = 1_500
isolation_ms_max = 1_500


class Isolation:
    """Strikes now and then, where there are partitions at all."""

    def __init__(self, world: World, hosts: Sequence[Host]) -> None:
        self._world = world
        self._hosts = hosts
        self._dice = world.dice.fork("isolation")
        if world.faults.network.partition_interval_ms and len(hosts) > 1:
            self._later()

    def _later(self) -> None:
        after_ms = self._dice.between(1, 2 * interval_ms)
        self._world.at(after_ms * NS_PER_MS, self._strike)

    def _strike(self) -> None:
        world = self._world
        if world.fabric.healed:
            return
        leading = [each.node.address for each in self._hosts if core_of(each).is_primary]
        if leading:
            alone = self._dice.pick(leading)
            others = [each.node.address for each in self._hosts if each.node.address != alone]
            world.fabric.cut([alone], others, one_way=False)
            world.mark("primary_isolated")
            world.record(alone, glyph.FAULT, "primary isolated")
            isolation_ms = self._dice.between(200, isolation_ms_max)
            world.at(isolation_ms * NS_PER_MS, world.fabric.heal)
        self._later()
