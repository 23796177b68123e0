"""The parts of the system that can be simulated, by name. Each has its nodes, clients and checks."""

from __future__ import annotations

from importlib import import_module

from motet.errors import BadInput
from motet.sim.storm import Storm

PARTS: dict[str, str] = {
    "time": "motet.verify.storms.time:TimeStorm",
    "database": "motet.verify.storms.database:DatabaseStorm",
    "streams": "motet.verify.storms.streams:StreamsStorm",
    "shard-log": "motet.verify.storms.shard_steps:ShardStepsStorm",
    "shard-changes": "motet.verify.storms.shard_steps:ShardChangesStorm",
    "transactions": "motet.verify.storms.transactions:TransactionsStorm",
    "transactions-in-turns": "motet.verify.storms.transactions_turns:TurnsStorm",
    "tables": "motet.verify.storms.tables:TablesStorm",
    "restored-tables": "motet.verify.storms.tables_restored:RestoredTablesStorm",
    "wrong-wall": "motet.verify.storms.wrong_wall:WrongWallStorm",
    "vsr": "motet.verify.storms.vsr:VsrStorm",
    "view-change": "motet.verify.storms.vsr:ViewChangeStorm",
    "keeper": "motet.verify.storms.keeper:KeeperStorm",
}
"""``motet simulate NAME`` -> where it is; imported when asked for."""


def storm_named(name: str) -> Storm:
    """The part of this name; ``BadInput`` when there is none."""
    if name not in PARTS:
        known = ", ".join(PARTS)
        raise BadInput(f"there is no part {name!r} to simulate", hint=f"choose one of {known}")
    module, _, attribute = PARTS[name].partition(":")
    part: Storm = getattr(import_module(module), attribute)()
    return part
