"""Does the core of the shard log do what its model does? Each step of each replica is followed in the model.

A shard of three replicas runs in the simulator under operators that duel, with crashes, partitions, pauses,
slow and full disks, and ``shard-log-steps`` runs beside it: each step of a replica is an action of the model,
several, or none (a *stutter*). R1: what no behaviour of the model explains is a violation, with the line that
says it. R2: what a replica then has is what the model has: status, epoch, log, what of it is durable and what
is committed.

The ensemble does not change here (``shard_changes`` has that), no disk is lost, and nothing rots.

Does the core of the shard log change its ensemble as its model does? Each step is followed in the model.

As in ``shard_steps``, with nodes to spare: somebody asks for swaps, expansions and contractions all the time,
operators duel and stall, and ``shard-log-changes`` runs beside it. What is written to the metadata store is a
step of the model too, so R1 and R2 hold operators to it: what they write, and what they tell a leader or a
new node, is what the model allows them after all that was written before.

No disk is lost here, and nothing rots.
"""

from __future__ import annotations

from typing import Any

import msgspec

from motet.core.machine import Effect, Event
from motet.core.metadata.definitions import StreamDefinition, shard_names
from motet.core.shardlog.steps import Chronicle
from motet.core.streams.cluster_messages import OperatorRequest, ShardMetadata
from motet.core.streams.node import DataNode
from motet.ids import Address, LogName, NodeId, ShardName, StreamId
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.models.shard_log_steps import ShardLogChanges, ShardLogSteps
from motet.verify.plants import plants_of
from motet.verify.storms.streams import StreamsRun
from motet.verify.storms.streams_changes import STAYS, Changer
from motet.verify.trace import TraceLine, Tracker
from motet.verify.trace.metadata import store_steps

REPLICAS = 3
UNBOUNDED = {"founded": 0, "entries": 100_000, "epochs": 100_000, "most_restarts": 100_000}
HARMLESS = ("crash", "pause", "partition", "partition_one_way", "clog", "slow_disk", "full_disk")


class ShardStepsStorm:
    """``motet simulate shard-log``."""

    name = "shard-log"
    marks = ("crash", "partition", "followed", "shard_truncated", "restarted")
    plants = plants_of("shard-log")
    storm_ms = 6_000

    def prepare(self, world: World, plant: str | None) -> ShardStepsRun:
        return ShardStepsRun(world, plant)


class Elector(Changer):
    """Asks for elections, and for nothing else."""

    def _decide(self) -> OperatorRequest | None:
        return self._elect()


class ShardStepsRun(StreamsRun):
    """A shard whose every step is followed."""

    changers: type[Changer] = Elector
    #: whether the model knows how many replicas a leader expects
    with_factor = False

    def __init__(self, world: World, plant: str | None) -> None:
        super().__init__(world, plant)
        (self._shard,) = shard_names(self.stays)
        self._numbers = {name: at for at, name in enumerate(self.hosts)}
        self.tracker = Tracker(self.model())
        #: the lines so far, as ``motet verify trace`` reads them
        self.lines: list[TraceLine] = []
        self._chronicles = {
            name: Chronicle(LogName(self._shard), n, with_factor=self.with_factor)
            for name, n in self._numbers.items()
        }
        self._lives: dict[NodeId, object] = {}
        world.observe(self._follow_in_model)

    def model(self) -> ShardLogSteps:
        """What the replicas are followed in."""
        return ShardLogSteps(nodes=REPLICAS, **UNBOUNDED)

    def draw_nodes(self, dice: Dice) -> int:  # noqa: ARG002
        return REPLICAS

    def draw_stream(self, dice: Dice, nodes: int) -> StreamDefinition:  # noqa: ARG002
        return StreamDefinition(StreamId("f" * 16), STAYS, 1, REPLICAS)

    def permits(self, fault: str, node: Address, /) -> bool:
        return fault in HARMLESS and super().permits(fault, node)

    def _wipe_later(self, interval_ms: int) -> None:
        """No disk is lost here."""

    def _wipe_if_spared(self, name: NodeId) -> bool:  # noqa: ARG002
        return False

    def _follow_in_model(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        machine = host.machine
        if not isinstance(machine, DataNode) or self._world.violations:
            return
        name = NodeId(host.node.address)
        chronicle, replica = self._chronicles[name], machine.shards.replica(LogName(self._shard))
        if replica is None:
            lines = chronicle.gone(effects)
        elif self._lives.setdefault(name, machine) is not machine:
            lines = chronicle.restarted(replica)
            if lines:
                self._lives[name] = machine
                self._world.mark("restarted")
        else:
            lines = chronicle.saw(replica, effects, self._numbers)
        for line in lines:
            self._take(name, line)

    def _take(self, who: str, line: dict[str, Any]) -> None:
        step = TraceLine(line["action"], line["with"], line.get("state", {}), len(self.lines) + 1)
        self.lines.append(step)
        why = None if self._world.violations else self.tracker.take(step)
        self._world.mark("followed")
        if why is not None:
            said = msgspec.json.encode(line).decode()
            self._world.violated("R1", f"{who} {said}: {'; '.join(why)}")


STORE_MARKS = (
    *("stored_Elect", "stored_Elected", "stored_BeginChange_swap", "stored_BeginChange_expand"),
    *("stored_BeginChange_contract", "stored_OrderChange", "stored_EndChange", "stored_CallOff"),
)


class ShardChangesStorm:
    """``motet simulate shard-changes``."""

    name = "shard-changes"
    marks = ("crash", "partition", "followed", "restarted", *STORE_MARKS)
    plants = plants_of("shard-changes")
    storm_ms = 6_000

    def prepare(self, world: World, plant: str | None) -> ShardChangesRun:
        return ShardChangesRun(world, plant)


class Rearranger(Changer):
    """Asks for changes of the one ensemble there is, and for elections."""

    def _decide(self) -> OperatorRequest | None:
        kinds = [self._swap] * 4 + [self._expand] * 3 + [self._contract] * 3 + [self._elect] * 2
        return self.dice.pick(kinds)()


class ShardChangesRun(ShardStepsRun):
    """A shard whose every step is followed, and what is written about it."""

    changers = Rearranger
    with_factor = True

    def model(self) -> ShardLogChanges:
        return ShardLogChanges(nodes=len(self.hosts), **UNBOUNDED)

    def draw_nodes(self, dice: Dice) -> int:
        return dice.pick([4, 4, 5])

    def draw_stream(self, dice: Dice, nodes: int) -> StreamDefinition:  # noqa: ARG002
        return StreamDefinition(StreamId("f" * 16), STAYS, 1, dice.pick([2, 3, 3]))

    def _stored(
        self, shard: ShardName, before: ShardMetadata | None, after: ShardMetadata | None
    ) -> None:
        super()._stored(shard, before, after)
        if shard == self._shard and after is not None:
            for line in store_steps(before, after, self._numbers):
                change = line["with"].get("change", {}).get("op")
                self._world.mark(f"stored_{line['action']}" + (f"_{change}" if change else ""))
                self._take("store", line)
