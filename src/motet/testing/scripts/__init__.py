"""The registry: which class gives the commands of which part, imported when a script asks for it."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from motet.errors import BadScenario
from motet.testing.part import ScenarioPart

#: part name → module and class
PARTS: dict[str, str] = {
    "clock": "motet.testing.scripts.clock:ClockPart",
    "datanode": "motet.testing.scripts.datanode:DataNodePart",
    "mergetree": "motet.testing.scripts.mergetree:MergeTreePart",
    "operator": "motet.testing.scripts.operator:OperatorPart",
    "shardlog": "motet.testing.scripts.shardlog:ShardlogPart",
    "streams": "motet.testing.scripts.streams:StreamsStorm",
    "tables": "motet.testing.scripts.mergetree_tables:TablesPart",
    "transactions": "motet.testing.scripts.transactions:TransactionsStorm",
    "vsr": "motet.testing.scripts.vsr:VsrStorm",
}


def part_class(name: str) -> type[ScenarioPart]:
    """The class behind a part's name; ``BadScenario`` lists the known names if there is none."""
    if name not in PARTS:
        raise BadScenario(
            f"there is no part {name!r}; there are {', '.join(sorted(PARTS))}",
            hint="put the script into a folder named like its part, or start it with `part NAME`",
        )
    module, _, class_name = PARTS[name].partition(":")
    return cast("type[ScenarioPart]", getattr(import_module(module), class_name))


def open_part(name: str) -> ScenarioPart:
    """A fresh instance of a part."""
    return part_class(name)()
