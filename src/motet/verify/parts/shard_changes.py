"""Does the core of the shard log change its ensemble as its model does? Each step is followed in the model.

As in ``shard_steps``, with nodes to spare: somebody asks for swaps, expansions and contractions all the time,
operators duel and stall, and ``shard-log-changes`` runs beside it. What is written to the metadata store is a
step of the model too, so R1 and R2 hold operators to it: what they write, and what they tell a leader or a
new node, is what the model allows them after all that was written before.

No disk is lost here, and nothing rots.
"""

from __future__ import annotations

from typing import Any

from motet.core.catalog.stream_definition import StreamDefinition
from motet.core.operator.messages import OperatorRequest
from motet.core.operator.metadata import (
    Reconfiguration,
    ReconfigurationPhase,
    ShardMetadata,
    ShardStatus,
)
from motet.core.shardlog.messages import ReconfigurationOp
from motet.ids import NodeId, ShardName, StreamId
from motet.sim.dice import Dice
from motet.sim.world import World
from motet.verify.models.shard_log_steps import ShardLogChanges
from motet.verify.models.shard_log_steps.records import NOBODY
from motet.verify.parts.shard_steps import UNBOUNDED, ShardStepsRun
from motet.verify.parts.streams_changes import STAYS, Changer

NAMES = {
    ReconfigurationOp.NODE_SWAP: "swap",
    ReconfigurationOp.EXPAND: "expand",
    ReconfigurationOp.CONTRACT: "contract",
}
STORE_MARKS = (
    *("stored_Elect", "stored_Elected", "stored_BeginChange_swap", "stored_BeginChange_expand"),
    *("stored_BeginChange_contract", "stored_OrderChange", "stored_EndChange", "stored_CallOff"),
)


class ShardChangesPart:
    """``motet simulate shard-changes``."""

    name = "shard-changes"
    marks = ("crash", "partition", "followed", "restarted", *STORE_MARKS)
    plants = (
        *("commit-falls", "minority-elects", "lowest-head-leads"),
        *("new-node-not-fenced", "old-replication-factor", "no-compare-and-set"),
    )
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


def store_steps(
    before: ShardMetadata | None, after: ShardMetadata, numbers: dict[NodeId, int]
) -> list[dict[str, Any]]:
    """The action that a write of metadata is, if it is one: who has left is not in the model."""
    named = _action(before, after, numbers)
    if named is None:
        return []
    action, arguments = named
    seen = {
        "epoch": int(after.epoch),
        "ensemble": sorted(numbers[node] for node in after.ensemble),
        "leader": _number(after.leader, numbers),
    }
    return [
        {"action": action, "with": arguments, "state": {"stored": {str(after.epoch - 1): seen}}}
    ]


def _action(
    before: ShardMetadata | None, after: ShardMetadata, numbers: dict[NodeId, int]
) -> tuple[str, dict[str, Any]] | None:
    if before is None:
        return "Found", {"ensemble": sorted(numbers[node] for node in after.ensemble)}
    change = after.reconfiguration
    if after.epoch != before.epoch:
        if after.status is ShardStatus.ELECTION or change is None:
            return "Elect", {}
        return "BeginChange", {"change": _told(change, numbers)}
    if before.status is ShardStatus.ELECTION and after.status is ShardStatus.STEADY_STATE:
        return "Elected", {}
    if change is None and before.reconfiguration is not None:
        is_done = before.reconfiguration.phase is ReconfigurationPhase.COMMIT
        return ("EndChange" if is_done else "CallOff"), {}
    if change is not None and change != before.reconfiguration:
        return "OrderChange", {}
    return None


def _told(change: Reconfiguration, numbers: dict[NodeId, int]) -> dict[str, Any]:
    return {
        "op": NAMES[change.op],
        "old": _number(change.old_node, numbers),
        "new": _number(change.new_node, numbers),
    }


def _number(node: NodeId | None, numbers: dict[NodeId, int]) -> int:
    return NOBODY if node is None else numbers[node]
