"""Traces of a simulated shard, followed as if nobody knew the order of lines of different nodes."""

from __future__ import annotations

import pytest

from motet.sim.dice import Dice
from motet.sim.storm import simulate
from motet.sim.world import World
from motet.verify.models import model_named
from motet.verify.models.shard_log_steps import ShardLogChanges
from motet.verify.storms.shard_steps import UNBOUNDED, ShardChangesRun, ShardChangesStorm
from motet.verify.trace import TraceLine, check_trace
from motet.verify.trace.merge import Placed, check_merged

ORDERS = 3


class Kept(ShardChangesStorm):
    """Keeps its run."""

    def prepare(self, world: World, plant: str | None) -> ShardChangesRun:
        self.run = super().prepare(world, plant)
        return self.run


def whose(line: TraceLine) -> str:
    """The node that a line is of, or the store."""
    if "n" in line.arguments:
        return str(line.arguments["n"])
    return next(iter(line.state["node"])) if "node" in line.state else "store"


def traces(lines: list[TraceLine], dice: Dice) -> list[list[Placed]]:
    """The lines of each node by themselves, each with another clock."""
    skews: dict[str, int] = {}
    found: dict[str, list[Placed]] = {}
    for at, line in enumerate(lines):
        name = whose(line)
        if name not in skews:
            skews[name] = dice.between(0, len(lines))
        found.setdefault(name, []).append(Placed(line, at=at + skews[name]))
    return list(found.values())


def follow_in_other_orders(seed: int) -> None:
    part = Kept()
    assert simulate(part, seed).verdict == "ok"
    size = {"nodes": len(part.run.hosts), **UNBOUNDED}
    model = model_named("shard-log-changes", size)
    assert isinstance(model, ShardLogChanges)
    for order in range(ORDERS):
        result = check_merged(model, traces(part.run.lines, Dice(order)))
        assert (result.verdict, result.lines) == ("explained", len(part.run.lines)), (order, result)


def test_what_happened_is_explained_whatever_the_clocks_say() -> None:
    follow_in_other_orders(4)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(1, 31))
def test_many_runs_are_explained_whatever_the_clocks_say(seed: int) -> None:
    follow_in_other_orders(seed)


def test_one_trace_is_followed_in_its_order() -> None:
    model = model_named("log-trimming", {"replicas": 2, "records": 2})
    lines = [
        TraceLine("Insert", {"r": 0}, number=1),
        TraceLine("ExecuteLog", {"r": 1}, {"replica": {"1": {"log_pointer": 2}}}, number=2),
        TraceLine("ExecuteLog", {"r": 1}, number=3),
    ]
    merged = check_merged(model, [[Placed(line) for line in lines]])
    assert merged == check_trace(model, lines)
    assert (merged.verdict, merged.line) == ("unexplained", 3)
