"""The parts of the system that can be simulated, by name. Each has its nodes, clients and checks."""

from __future__ import annotations

from importlib import import_module

from motet.errors import BadInput
from motet.sim.part import Part

PARTS: dict[str, str] = {
    "time": "motet.verify.parts.time:TimePart",
    "database": "motet.verify.parts.database:DatabasePart",
    "streams": "motet.verify.parts.streams:StreamsPart",
    "shard-log": "motet.verify.parts.shard_steps:ShardStepsPart",
    "shard-changes": "motet.verify.parts.shard_changes:ShardChangesPart",
    "transactions": "motet.verify.parts.transactions:TransactionsPart",
    "transactions-in-turns": "motet.verify.parts.transactions_turns:TurnsPart",
    "wrong-wall": "motet.verify.parts.wrong_wall:WrongWallPart",
    "vsr": "motet.verify.parts.vsr:VsrPart",
    "view-change": "motet.verify.parts.view_change:ViewChangePart",
    "keeper": "motet.verify.parts.keeper:KeeperPart",
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
