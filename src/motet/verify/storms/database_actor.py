"""Whoever works with the database of the simulated node: who they ask, and what they begin with."""

from __future__ import annotations

from abc import abstractmethod

from motet.core.machine import Effect, Message
from motet.core.onelog.messages import CreateStream, StreamReady
from motet.ids import Address, StreamName
from motet.sim.world import World
from motet.verify.storms.asker import Asker

SERVER = Address("n1")
STREAM = StreamName("accounts")
TIMEOUT_MS = 150
BETWEEN_MS_MAX = 60


class Actor(Asker):
    """Makes sure that there is a stream, and goes on from there."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name, SERVER, timeout_ms=TIMEOUT_MS, between_ms_max=BETWEEN_MS_MAX)

    def started(self) -> list[Effect]:
        return self.ask(CreateStream(self.next_request(), STREAM, 2))

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if not isinstance(asked, CreateStream):
            return self.worked(asked, answer)
        return self.ready() if isinstance(answer, StreamReady) else self.started()

    def ready(self) -> list[Effect]:
        """What to do when the stream is there."""
        return self.pause()

    @abstractmethod
    def worked(self, asked: Message, answer: Message | None) -> list[Effect]:
        """Go on with what came of the work itself."""
