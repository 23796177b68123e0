"""The parts of the system that can be simulated, by name. Each has its nodes, clients and checks."""

from __future__ import annotations

from importlib import import_module

from motet.errors import BadInput
from motet.sim.part import Part

PARTS: dict[str, str] = {
    "time": "motet.verify.storms.time:TimePart",
    "database": "motet.verify.storms.database:DatabasePart",
    "streams": "motet.verify.storms.streams:StreamsPart",
    "shard-log": "motet.verify.storms.shard_steps:ShardStepsPart",
    "shard-changes": "motet.verify.storms.shard_changes:ShardChangesPart",
    "transactions": "motet.verify.storms.transactions:TransactionsPart",
    "transactions-in-turns": "motet.verify.storms.transactions_turns:TurnsPart",
    "wrong-wall": "motet.verify.storms.wrong_wall:WrongWallPart",
    "vsr": "motet.verify.storms.vsr:VsrPart",
    "view-change": "motet.verify.storms.view_change:ViewChangePart",
    "keeper": "motet.verify.storms.keeper:KeeperPart",
}
"""``motet simulate NAME`` -> where it is; imported when asked for."""


def part_named(name: str) -> Part:
    """The part of this name; ``BadInput`` when there is none."""
    if name not in PARTS:
        known = ", ".join(PARTS)
        raise BadInput(f"there is no part {name!r} to simulate", hint=f"choose one of {known}")
    module, _, attribute = PARTS[name].partition(":")
    part: Part = getattr(import_module(module), attribute)()
    return part
