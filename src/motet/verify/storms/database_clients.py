"""Whoever works with the database of the simulated node: who they ask, and what they begin with.

Whoever prunes the feed in the storm: what everybody has read goes, and what is not the feed stays.

A stream of its own has one change, which is pruned like the others. What is noticed at once:

S5   its token is still known: the same append again is recognised, wherever its record is
S7   the latest change of its key is what it was
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from motet.core.clock.hlc import Clock
from motet.core.machine import Effect, Message, Violation
from motet.core.onelog.messages import (
    Append,
    Appended,
    CreateStream,
    GetLatest,
    Latest,
    OrderFeed,
    StreamReady,
)
from motet.core.streams.change import Token
from motet.core.streams.orders import Prune
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


NOTES = StreamName("notes")
KEY, VALUE, TOKEN = b"once", b"written once", Token("pruner", 1)


class Pruner(Actor):
    """Prunes as far as ``read_by_all`` says, and asks for what must be there all the same."""

    def __init__(self, world: World, name: str, read_by_all: Callable[[], Clock | None]) -> None:
        super().__init__(world, name)
        self.violations: list[Violation] = []
        self._read_by_all = read_by_all
        #: where the one change was put
        self._put: Appended | None = None

    def ready(self) -> list[Effect]:
        return self.ask(CreateStream(self.next_request(), NOTES, 1))

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(asked, CreateStream) and asked.name == NOTES:
            return self.pause() if isinstance(answer, StreamReady) else self.ready()
        return super().answered(asked, answer)

    def begin(self) -> list[Effect]:
        request, up_to = self.next_request(), self._read_by_all()
        what = self.dice.pick(["append", "get", "prune"])
        if self._put is None or what == "append":
            return self.ask(Append(request, NOTES, KEY, VALUE, TOKEN))
        if up_to is None or what == "get":
            return self.ask(GetLatest(request, NOTES, KEY))
        return self.ask(OrderFeed(request, (STREAM, NOTES), Prune(up_to, is_forced=False)))

    def worked(self, _asked: Message, answer: Message | None) -> list[Effect]:
        put = self._put
        if isinstance(answer, Appended):
            if put is not None and (not answer.duplicate or answer.clock != put.clock):
                self.violations.append(Violation("S5", f"{TOKEN} was applied again"))
            self._put = answer
        elif isinstance(answer, Latest) and put is not None:
            found = answer.change
            if found is None or (found.clock, found.row) != (put.clock, VALUE):
                self.violations.append(Violation("S7", "a key has lost its latest change"))
        return self.pause()
