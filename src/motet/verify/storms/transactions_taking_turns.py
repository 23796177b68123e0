"""Data nodes that hear of most messages that another one follows, as on a real node under load."""

from __future__ import annotations

import msgspec

from motet.core.machine import Effect, Event, Received
from motet.core.streams.node import DataNode


class TakesTurns(DataNode):
    """A node that hears of two messages out of three that another one follows."""

    heard = 0

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            self.heard += 1
            if self.heard % 3:
                event = msgspec.structs.replace(event, is_followed=True)
        return super().step(event)
