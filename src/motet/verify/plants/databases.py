"""Bugs of the database in one folder, and of the time."""

from __future__ import annotations

from motet.verify.plants.plant import SEEDS_FEW, Plant, Search, bypasses

DATABASE_PLANTS: tuple[Plant, ...] = (
    bypasses(
        "a-third-follows",
        Search("time", SEEDS_FEW, ("T4",), is_quick=True),
        rule="the time rests on a majority of right walls",
        rule_id="clock.cluster_time T1",
        target="motet.core.clock.cluster_time.ClusterTime.quorum",
        by="motet.verify.storms.time:TimeRun",
    ),
    bypasses(
        "ack-before-durable",
        Search("database", SEEDS_FEW, ("S1", "S2", "liveness")),
        rule="what is confirmed is durable, and read back for ever",
        rule_id="onelog.machine S1",
        target="motet.core.machine.Written",
        by="motet.verify.storms.planting:Hurried",
    ),
    bypasses(
        "do-not-validate",
        Search("database", SEEDS_FEW, ("S4",), is_quick=True),
        rule="a transaction is applied only if what it read is still so",
        rule_id="onelog.machine S4",
        target="motet.core.onelog.messages.Commit.reads",
        by="motet.verify.storms.database:Blind",
    ),
    bypasses(
        "trim-without-carrying",
        Search("database", SEEDS_FEW, ("S7",), is_quick=True),
        rule="the latest change of a key stays in the log",
        rule_id="onelog.machine S7",
        target="motet.core.onelog.context.Clearing.holding",
        by="motet.verify.storms.database:Drops",
    ),
)
