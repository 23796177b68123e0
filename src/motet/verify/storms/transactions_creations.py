"""Streams that are created in the storm: each begins above every clock that anybody was told before.

Created        the first entry of a shard is above all clocks handed out before its stream was asked for
"""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Effect, Event, Received, Send
from motet.core.metadata.definitions import shard_names
from motet.core.streams.cluster_messages import CreateStream
from motet.core.streams.messages import RecordsAppended, ShardClosed, ShardFeed, TransactionEnded
from motet.ids import ShardName
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.storms.streams_checks import Watch


class Births:
    """What was handed out when streams were asked for."""

    def __init__(self, world: World, watch: Watch) -> None:
        self._world = world
        self._watch = watch
        self._told = ZERO
        #: shard -> what was told when its stream was first asked for
        self._floors: dict[ShardName, Clock] = {}

    def saw(self, _host: Host, event: Event, effects: list[Effect]) -> None:
        """A step of anybody."""
        if isinstance(event, Received):
            told = _clock_in(event.message)
            if told is not None and told > self._told:
                self._told = told
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, CreateStream):
                for shard in shard_names(effect.message.definition):
                    self._floors.setdefault(shard, self._told)

    def check(self) -> None:
        """In the end."""
        for shard, floor in self._floors.items():
            truth = self._watch.truth(shard)
            if truth.head == 0:
                continue
            first = truth.entries[truth.ids[1]]
            if floor > ZERO:
                self._world.mark("stream_created_in_storm")
            if first.clock <= floor:
                what = f"{shard} begins at {first.clock}, and {floor} had been told"
                self._world.violated("Created", what)


def _clock_in(message: object) -> Clock | None:
    """The clock that a client was told."""
    if isinstance(message, ShardClosed | ShardFeed):
        return message.closed
    if isinstance(message, TransactionEnded):
        return message.clock
    if isinstance(message, RecordsAppended):
        return max(place.clock for place in message.places)
    return None
