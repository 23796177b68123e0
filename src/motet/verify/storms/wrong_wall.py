"""Transactions in the storm, on a cluster one of whose nodes has a wrong wall clock.

The cluster, its clients and its faults are those of ``transactions``. The walls of all data nodes are right
but one, which jumps by seconds, by a minute and by an hour, ahead and back, and may be wrong for good. Data
nodes ask each other for the time. What is watched after each step of a data node:

W1  the clock that it has given out is within the drift bound of the true time
W2  so is the highest clock that it has seen

And in the end, as for ``transactions``: all that was begun has ended, and the feed is read to its end. Then a
node whose wall is still wrong leads no shard that another one could lead.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.core.clock.hlc import Clock
from motet.core.machine import NS_PER_MS, Effect, Event
from motet.core.streams.node import DataNode
from motet.ids import Address, NodeId
from motet.limits import clock_drift_ms_max
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.time import EPOCH_NS, SimTime
from motet.sim.world import World
from motet.verify.plants import kind_of, plants_of
from motet.verify.storms.transactions import TransactionsRun, TransactionsStorm

JUMPS_MS = (60_000, 3_600_000, -3_600_000, 600_000, 2_000, -2_000)
skew_ms_max = 40
"""How far the right walls are off."""

rate_ppm_max = 50


class OwnWall(DataNode):
    """Asks the others, and goes by its own wall, as all nodes did once."""

    def step(self, event: Event) -> list[Effect]:
        return self._keep_time(event) + self._step(event)


class FirstAnswer(DataNode):
    """One other node is a majority for it: the first that answers, whose wall may be the wrong one."""

    def step(self, event: Event) -> list[Effect]:
        time = self.state.time
        if time.time is not None:
            time.time.samples = dict(list(time.time.samples.items())[:1])
            time.time.quorum = 1
        return super().step(event)


class WrongWallStorm(TransactionsStorm):
    """``motet simulate wrong-wall``."""

    name = "wrong-wall"
    marks = ("crash", "wall_jumped", "wall_was_right_again", "time_agreed", "operator_node_drifts")
    plants = plants_of("wrong-wall")

    def prepare(self, world: World, plant: str | None) -> WrongWallRun:
        return WrongWallRun(world, plant)


class WrongWallRun(TransactionsRun):
    """One cluster, and the wall that is wrong."""

    def __init__(self, world: World, plant: str | None) -> None:
        self._walls = world.dice.fork("walls")
        self._names: tuple[NodeId, ...] = ()
        super().__init__(world, plant)
        self.wrong = self._walls.pick(list(self.hosts))
        self._is_wrong_for_good = self._walls.chance(0.5)
        self._offset_ms = 0
        world.observe(self._saw)
        self._jump_later()

    def draw_nodes(self, dice: Dice) -> int:
        count = dice.pick([3, 3, 4, 5])
        self._names = tuple(NodeId(f"n{number}") for number in range(1, count + 1))
        return count

    def _add_data_node(self, name: NodeId, plant: str | None) -> None:
        self.skew_ms = 0
        super()._add_data_node(name, plant)
        self._world.nodes[Address(name)].time = SimTime(
            self._world.virtual,
            rate_ppm=self._walls.between(-rate_ppm_max, rate_ppm_max),
            skew_ms=self._walls.between(-skew_ms_max, skew_ms_max),
        )

    def _maker(self, name: NodeId, plant: str | None) -> Callable[[], DataNode]:
        kind = kind_of("wrong-wall", plant, DataNode)
        return lambda: kind(name, self.config, self.transactions, self._names)

    def permits(self, fault: str, node: Address, /) -> bool:
        return fault != "clock_jump" and super().permits(fault, node)

    # The wall that is wrong

    def _jump_later(self) -> None:
        after_ms = self._walls.between(50, 2_000)
        self._world.at(after_ms * NS_PER_MS, self._jump, ())

    def _jump(self) -> None:
        world = self._world
        is_right = self._offset_ms != 0 and self._walls.chance(0.3)
        if world.fabric.healed:
            if not self._is_wrong_for_good:
                self._set(0)
            return
        self._set(0 if is_right else self._walls.pick(JUMPS_MS))
        self._jump_later()

    def _set(self, offset_ms: int) -> None:
        time = self._world.nodes[Address(self.wrong)].time
        time.jump(offset_ms - self._offset_ms)
        self._offset_ms = offset_ms
        self._world.mark("wall_jumped" if offset_ms else "wall_was_right_again")
        self._world.record(self.wrong, "!", f"its wall is off by {offset_ms} ms")

    # What must hold

    def _saw(self, host: Host, _event: Event, _effects: list[Effect]) -> None:
        machine = host.machine
        if not isinstance(machine, DataNode):
            return
        latest_ms = (EPOCH_NS + self._world.virtual.elapsed_ns) // NS_PER_MS + clock_drift_ms_max
        self._check("W1", host, machine.state.clock.current, latest_ms)
        self._check("W2", host, machine.shards.clock, latest_ms)

    def _check(self, rule: str, host: Host, clock: Clock, latest_ms: int) -> None:
        if clock.logical > latest_ms:
            ahead_ms = clock.logical - latest_ms + clock_drift_ms_max
            what = f"{host.node.address} has {clock}, {ahead_ms} ms ahead of the time"
            self._world.violated(rule, what)

    def finished(self) -> bool:
        was_calm = self.calm is not None
        is_finished = super().finished()
        if not was_calm and self.calm is not None:
            self._world.nodes[Address(self.wrong)].time.jump(self._offset_ms)  # it stays wrong
        return is_finished and self._leads_in_vain() is None

    def _open_transactions(self) -> str | None:
        return super()._open_transactions() or self._leads_in_vain()

    def _leads_in_vain(self) -> str | None:
        """A shard that is led by the node with the wrong wall, although another one could."""
        if abs(self._offset_ms) <= clock_drift_ms_max or not self._world.fabric.healed:
            return None
        for shard, metadata in self.watch.metadata.items():
            if metadata.leader == self.wrong and len(metadata.ensemble) > 1:
                return f"{self.wrong} leads {shard}, and its wall is off by {self._offset_ms} ms"
        return None
