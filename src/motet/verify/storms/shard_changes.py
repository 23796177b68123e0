"""Does the core of the shard log change its ensemble as its model does? Each step is followed in the model.

As in ``shard_steps``, with nodes to spare: somebody asks for swaps, expansions and contractions all the time,
operators duel and stall, and ``shard-log-changes`` runs beside it. What is written to the metadata store is a
step of the model too, so R1 and R2 hold operators to it: what they write, and what they tell a leader or a
new node, is what the model allows them after all that was written before.

No disk is lost here, and nothing rots.
"""

from __future__ import annotations

from motet.core.metadata.definitions import StreamDefinition
from motet.core.streams.cluster_messages import OperatorRequest, ShardMetadata
from motet.ids import ShardName, StreamId
from motet.sim.dice import Dice
from motet.sim.world import World
from motet.verify.models.shard_log_steps import ShardLogChanges
from motet.verify.plants import plants_of
from motet.verify.storms.shard_steps import UNBOUNDED, ShardStepsRun
from motet.verify.storms.streams_changes import STAYS, Changer
from motet.verify.trace.metadata import store_steps

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
