"""Bugs of the database in one folder, and of the time."""

from __future__ import annotations

from motet.verify.plants.plant import SEEDS_FEW, Plant, Search

DATABASE_PLANTS: tuple[Plant, ...] = (
    Plant(
        "a-third-follows",
        rule="the time rests on a majority of right walls",
        rule_id="clock.cluster_time T1",
        how="bypasses",
        target="motet.core.clock.cluster_time.ClusterTime.quorum",
        planted_by="motet.verify.storms.time:TimeRun",
        searches=(Search("time", SEEDS_FEW, ("T4",), is_quick=True),),
    ),
    Plant(
        "ack-before-durable",
        rule="what is confirmed is durable, and read back for ever",
        rule_id="onelog.machine S1",
        how="bypasses",
        target="motet.core.machine.Written",
        planted_by="motet.verify.storms.planting:Hurried",
        searches=(Search("database", SEEDS_FEW, ("S1", "S2", "T1", "T3", "T4", "T5", "liveness")),),
    ),
    Plant(
        "do-not-validate",
        rule="a transaction is applied only if what it read is still so",
        rule_id="onelog.machine S4",
        how="bypasses",
        target="motet.core.onelog.messages.Commit.reads",
        planted_by="motet.verify.storms.database:Blind",
        searches=(Search("database", SEEDS_FEW, ("S4",), is_quick=True),),
    ),
    Plant(
        "forget-epoch",
        rule="an ordered writer goes forward, in its epoch",
        rule_id="tables.plan T4",
        how="bypasses",
        target="motet.core.tables.records.WriterStep.epoch",
        planted_by="motet.verify.storms.database:Forgets",
        searches=(Search("database", SEEDS_FEW, ("T4", "T5"), is_quick=True),),
    ),
    Plant(
        "publish-halves",
        rule="what is published in one step is visible as a whole or not at all",
        rule_id="tables.plan T5",
        how="bypasses",
        target="motet.core.tables.messages.Publish.parts",
        planted_by="motet.verify.storms.database:Halves",
        searches=(Search("database", SEEDS_FEW, ("T5",), is_quick=True),),
    ),
    Plant(
        "trim-without-carrying",
        rule="the latest change of a key stays in the log",
        rule_id="onelog.machine S7",
        how="bypasses",
        target="motet.core.onelog.state.Clearing.holding",
        planted_by="motet.verify.storms.database:Drops",
        searches=(Search("database", SEEDS_FEW, ("S7",), is_quick=True),),
    ),
)
