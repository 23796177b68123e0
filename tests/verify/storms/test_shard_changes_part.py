"""Changes of an ensemble are followed in their model, with what is written to the store."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.streams.cluster_messages import (
    Reconfiguration,
    ReconfigurationPhase,
    ShardMetadata,
    ShardStatus,
)
from motet.ids import Epoch, NodeId, ShardName
from motet.sim.storm import simulate
from motet.sim.world import World
from motet.verify.models import model_named
from motet.verify.seed_range import run_seeds
from motet.verify.storms.shard_steps import UNBOUNDED, ShardChangesRun, ShardChangesStorm
from motet.verify.trace import check_trace, read_trace
from motet.verify.trace.metadata import store_steps


class Kept(ShardChangesStorm):
    """Keeps its run."""

    def prepare(self, world: World, plant: str | None) -> ShardChangesRun:
        self.run = super().prepare(world, plant)
        return self.run


def test_every_step_of_a_changing_ensemble_is_a_step_of_the_model() -> None:
    whole_change = {"PrepareChange", "Summon", "Become", "CommitChange", "EndChange"}
    for seed in range(1, 21):
        part = Kept()
        outcome = simulate(part, seed)
        assert outcome.violations == []
        is_whole = whole_change <= {line.action for line in part.run.lines}
        if is_whole and outcome.marks["followed"] > 1_000:
            break
    else:
        pytest.fail("no seed is long and has a change from its beginning to its end")
    size = {"nodes": len(part.run.hosts), **UNBOUNDED}
    lines = [msgspec.json.encode(line) for line in part.run.lines]
    model = model_named("shard-log-changes", size)
    done_at = [at for at, line in enumerate(part.run.lines) if line.action == "CommitChange"]
    prepared = done_at[0]
    assert check_trace(model, read_trace(lines[: prepared + 1])[1]).verdict == "explained"
    twice = [*lines[: prepared + 1], lines[prepared]]
    result = check_trace(model, read_trace(twice)[1])
    assert (result.verdict, result.line) == ("unexplained", prepared + 2)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_hundred_seeds_are_followed() -> None:
    result = run_seeds("shard-changes", 1, 100)
    assert result.failure is None, result.failure.replay_command()
    assert all(result.marks.get(mark) for mark in ShardChangesStorm.marks)


def test_a_write_to_the_store_becomes_a_named_action() -> None:
    n1, n2, n3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
    numbers = {n1: 0, n2: 1, n3: 2}

    def names(before: ShardMetadata | None, after: ShardMetadata) -> list[Any]:
        return [line["action"] for line in store_steps(before, after, numbers)]

    created = ShardMetadata(ShardName("s"), Epoch(1), ShardStatus.ELECTION, None, (n1, n2), 2)
    steady = msgspec.structs.replace(created, status=ShardStatus.STEADY_STATE, leader=n1)
    change = Reconfiguration(
        ReconfigurationOp.NODE_SWAP, ReconfigurationPhase.PREPARE, n2, n3, 2, None
    )
    begun = msgspec.structs.replace(
        steady, epoch=Epoch(2), status=ShardStatus.RECONFIGURATION, reconfiguration=change
    )
    ordered = msgspec.structs.replace(
        begun,
        reconfiguration=msgspec.structs.replace(change, phase=ReconfigurationPhase.COMMIT),
    )
    done = msgspec.structs.replace(
        ordered, status=ShardStatus.STEADY_STATE, ensemble=(n1, n3), reconfiguration=None
    )
    back = msgspec.structs.replace(begun, status=ShardStatus.STEADY_STATE, reconfiguration=None)
    again = msgspec.structs.replace(
        ordered, epoch=Epoch(3), status=ShardStatus.ELECTION, leader=None
    )
    assert names(None, created) == ["Found"]
    assert names(created, steady) == ["Elected"]
    assert names(steady, begun) == ["BeginChange"]
    assert names(begun, ordered) == ["OrderChange"]
    assert names(ordered, done) == ["EndChange"]
    assert names(begun, back) == ["CallOff"]
    assert names(ordered, again) == ["Elect"]
    left = msgspec.structs.replace(done, removed_nodes=(n2,))
    assert names(done, left) == [], "who has left is not in the model"
    (line,) = store_steps(steady, begun, numbers)
    assert line["with"] == {"change": {"op": "swap", "old": 1, "new": 2}}
    assert line["state"] == {"stored": {"1": {"epoch": 2, "ensemble": [0, 1], "leader": 0}}}
