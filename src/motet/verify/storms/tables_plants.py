"""Table replicas with planted bugs: the real node, with one rule of its protocol left out."""

from __future__ import annotations

from motet.core.mergetree.node import TableNode
from motet.verify.plants import kind_of


def table_node(plant: str | None) -> type[TableNode]:
    """The node with this bug; the real one without."""
    return kind_of("tables", plant, TableNode)
