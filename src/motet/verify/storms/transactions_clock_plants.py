"""Data nodes with one rule about their clock left out."""

from __future__ import annotations

from motet.core.clock import node_clock
from motet.core.machine import Effect, Event, Written
from motet.core.streams.node import DataNode
from motet.verify.storms.planting import Planted


class ForgetsTheBound(Planted):
    """A restarted clock starts from its wall, as if it had never ticked."""

    planted = (node_clock, "decode_bound", lambda _data: None)


class TrustsAnUnsyncedBound(DataNode):
    """A bound counts as durable as soon as its write has begun."""

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        write = self.state.clock.write
        if write is not None:
            effects += super().step(Written(event.now, write))
        return effects
