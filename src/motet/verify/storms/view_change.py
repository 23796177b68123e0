"""Does the core of consensus do what its model does? Every step of every replica is followed in the model.

A cluster of three runs in the simulator with lost, late and repeated messages, partitions, pauses and slow
disks, and ``vsr-view-change`` runs beside it: each step of a replica is an action of the model, several, or
none (a *stutter*). R1: what no behaviour of the model explains is a violation, with the line that says it.
R2: what a replica then has is what the model has: view, log_view, status, log, and what is committed.

There are no crashes and no damage here, and no checkpoint is reached. What is not durable yet is not
looked at: a replica promises nothing in a view that is not on its disk.
"""

from __future__ import annotations

from typing import Any

import msgspec

from motet.core.machine import Effect, Event, Send
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.look import can_be_seen, observed
from motet.core.vsr.messages import DoViewChange
from motet.core.vsr.replica import Replica
from motet.ids import Address
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.models.view_change import ViewChange
from motet.verify.plants import plants_of
from motet.verify.storms.vsr import VsrRun
from motet.verify.storms.vsr import draw_config as draw_any
from motet.verify.trace import TraceLine, Tracker
from motet.verify.trace.view_changes import ViewChangeSteps

REPLICAS = 3
OPS = 120
VIEWS = 200
OPERATIONS = 30
HARMLESS = ("partition", "partition_one_way", "clog", "pause", "slow_disk", "clock_jump")


class ViewChangeStorm:
    """``motet simulate view-change``."""

    name = "view-change"
    marks = ("partition", "primary_isolated", "pause", "followed", "vsr_truncated_by_nacks")
    plants = plants_of("view-change")
    storm_ms = 4_000

    def prepare(self, world: World, plant: str | None) -> ViewChangeRun:
        return ViewChangeRun(world, plant)


class ViewChangeRun(VsrRun):
    """A cluster whose every step is followed."""

    def __init__(self, world: World, plant: str | None) -> None:
        super().__init__(world, plant)
        self.tracker = Tracker(ViewChange(replicas=REPLICAS, ops=OPS, views=VIEWS, most_faults=0))
        #: the lines so far, as ``motet verify trace`` reads them
        self.lines: list[TraceLine] = []
        self._steps = ViewChangeSteps(REPLICAS)
        self._is_over = False
        world.observe(self._follow_in_model)

    def draw_config(self, dice: Dice) -> VsrConfig:
        names = tuple(Address(f"n{number}") for number in range(1, REPLICAS + 1))
        drawn = draw_any(dice)
        return msgspec.structs.replace(drawn, replicas=names, slots=512, checkpoint_ops=OPS + 50)

    def operations(self) -> int:
        return OPERATIONS

    def permits(self, fault: str, node: Address, /) -> bool:
        return fault in HARMLESS and super().permits(fault, node)

    def _follow_in_model(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        replica = host.machine
        if not isinstance(replica, Replica) or self._world.violations or self._is_over:
            return
        core = replica.core
        if not can_be_seen(core):
            return
        after = observed(core)
        if after.op > OPS or after.view > VIEWS:
            self._is_over = True  # the model ends here, and so does what can be said
            return
        sends = any(isinstance(e, Send) and isinstance(e.message, DoViewChange) for e in effects)
        for line in self._steps.saw(core.own, after, sends=sends):
            self._take(host.node.address, line)

    def _take(self, address: Address, line: dict[str, Any]) -> None:
        step = TraceLine(
            line["action"], line.get("with", {}), line.get("state", {}), len(self.lines) + 1
        )
        self.lines.append(step)
        why = None if self._world.violations else self.tracker.take(step)
        self._world.mark("followed")
        if why is not None:
            said = msgspec.json.encode(line).decode()
            self._world.violated("R1", f"{address} {said}: {'; '.join(why)}")
