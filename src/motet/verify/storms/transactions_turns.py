"""Transactions in the storm, with requests that come several in a turn, as they do on a real node.

In a simulated world every message comes alone. A leader that hears that another one follows lets requests
wait for it, and puts what it has gathered into its log as one entry. Here two messages out of three are said
to be followed, whatever follows: nothing that a node does may depend on its being true.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.core.streams.node import DataNode
from motet.ids import NodeId
from motet.sim.world import World
from motet.verify.plants import kind_of, plants_of
from motet.verify.storms.transactions import TransactionsRun, TransactionsStorm
from motet.verify.storms.transactions_taking_turns import TakesTurns


class TurnsRun(TransactionsRun):
    """One cluster of such nodes."""

    def _maker(self, name: NodeId, plant: str | None) -> Callable[[], DataNode]:
        kind = kind_of("transactions-in-turns", plant, TakesTurns)
        return lambda: kind(name, self.config, self.transactions)


class TurnsStorm(TransactionsStorm):
    """``motet simulate transactions-in-turns``."""

    name = "transactions-in-turns"
    plants = plants_of("transactions-in-turns")

    def prepare(self, world: World, plant: str | None) -> TurnsRun:
        return TurnsRun(world, plant)
