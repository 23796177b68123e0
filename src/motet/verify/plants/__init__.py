"""All bugs that can be planted, in one table: ``motet simulate PART --plant NAME``.

A checker that never failed has shown nothing. So each rule that matters is broken on purpose somewhere, and
the simulation has to notice. One certain seed would not do: as soon as a timer changes, it is another run. So
a bug has to be found within a generous number of seeds, from a first one on. A row says which rule is broken,
which code is changed for it, and by which rules of which part it is found.

The rows are plain data, so that a list of them imports no machine; what a row names is imported when it is
asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

from motet.errors import BadInput
from motet.verify.plants.consensus import CONSENSUS_PLANTS
from motet.verify.plants.databases import DATABASE_PLANTS
from motet.verify.plants.plant import Plant, Search
from motet.verify.plants.shards import SHARD_PLANTS
from motet.verify.plants.tables import TABLE_PLANTS
from motet.verify.plants.transactions import TRANSACTION_PLANTS

__all__ = ["PLANTS", "Plant", "Search", "kind_of", "named", "plants_of", "search_for"]

T = TypeVar("T")

PLANTS: tuple[Plant, ...] = (
    *DATABASE_PLANTS,
    *SHARD_PLANTS,
    *TRANSACTION_PLANTS,
    *CONSENSUS_PLANTS,
    *TABLE_PLANTS,
)


def plants_of(part: str) -> tuple[str, ...]:
    """The names of the bugs that can be planted into a part."""
    return tuple(plant.name for plant in PLANTS for search in plant.searches if search.part == part)


def search_for(part: str, name: str) -> tuple[Plant, Search]:
    """A planted bug of a part, and where it has to be found; ``BadInput`` when there is none."""
    for plant in PLANTS:
        for search in plant.searches:
            if (search.part, plant.name) == (part, name):
                return plant, search
    known = ", ".join(plants_of(part)) or "none"
    raise BadInput(f"{part} has no planted bug {name!r}", hint=f"known: {known}")


def kind_of(part: str, name: str | None, base: type[T]) -> type[T]:
    """The class with this bug, if it is one of this kind; else the real one."""
    if name is None or name not in plants_of(part):
        return base
    found = named(search_for(part, name)[0].planted_by)
    return found if isinstance(found, type) and issubclass(found, base) else base


def named(dotted: str) -> Any:
    """What a dotted name means: as much of it as is a module, then its attributes."""
    words = dotted.replace(":", ".").split(".")
    for count in range(len(words), 0, -1):
        try:
            found: Any = import_module(".".join(words[:count]))
        except ModuleNotFoundError:
            continue
        for word in words[count:]:
            found = getattr(found, word)
        return found
    raise ModuleNotFoundError(dotted)
