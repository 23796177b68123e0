"""Transactions in the storm, with requests that come several in a turn, as they do on a real node.

In a simulated world every message comes alone. A leader that hears that another one follows lets requests
wait for it, and puts what it has gathered into its log as one entry. Here two messages out of three are said
to be followed, whatever follows: nothing that a node does may depend on its being true.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.datanode.node import DataNode
from motet.core.machine import Effect, Event, Received
from motet.ids import NodeId
from motet.sim.world import World
from motet.verify.parts.transactions import TransactionsPart, TransactionsRun


class TakesTurns(DataNode):
    """A node that hears of two messages out of three that another one follows."""

    heard = 0

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            self.heard += 1
            if self.heard % 3:
                event = msgspec.structs.replace(event, is_followed=True)
        return super().step(event)


class TurnsRun(TransactionsRun):
    """One cluster of such nodes."""

    def _maker(self, name: NodeId, plant: str | None) -> Callable[[], DataNode]:
        assert plant is None
        return lambda: TakesTurns(name, self.config, self.transactions)


class TurnsPart(TransactionsPart):
    """``motet simulate transactions-in-turns``."""

    name = "transactions-in-turns"
    plants = ()

    def prepare(self, world: World, plant: str | None) -> TurnsRun:
        return TurnsRun(world, plant)
