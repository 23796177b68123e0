"""A client in a simulation: asks one thing at a time, and may never hear of it again.

A client is part of the experiment, not of what is tested: faults leave it alone. It has no state machine of
its own to be cloned or checked, only what it asked, and what came of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from motet.core.machine import Effect, Event, Fired, Message, Received, Send, SetTimer, Started
from motet.ids import Address, RequestId, TimerName
from motet.sim.world import World

NEXT = TimerName("next")
TIMEOUT = TimerName("timeout")


class Asker(ABC):
    """Asks ``server``; an answer is matched by its ``request``, and one that comes too late is ignored."""

    def __init__(
        self, world: World, name: str, server: Address, *, timeout_ms: int, between_ms_max: int
    ) -> None:
        self.name = name
        self.world = world
        self.dice = world.dice.fork(f"client.{name}")
        self._server = server
        self._timeout_ms = timeout_ms
        self._between_ms_max = between_ms_max
        self._requests = 0
        #: asked, and neither answered nor given up
        self._asked: Message | None = None

    @abstractmethod
    def begin(self) -> list[Effect]:
        """Begin the next thing to do."""

    @abstractmethod
    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        """Go on with an answer; None when there was none in time."""

    def started(self) -> list[Effect]:
        """What to do first."""
        return self.pause()

    def itself(self) -> Self:
        """A client is never restarted, so its factory may hand out the one there is."""
        return self

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Started):
            return self.started()
        if isinstance(event, Fired):
            return self.begin() if event.timer == NEXT else self._end(None)
        if isinstance(event, Received) and self._is_answer(event.message):
            return self._end(event.message)
        return []

    def pause(self) -> list[Effect]:
        """Wait a moment, and begin again."""
        return [SetTimer(NEXT, self.dice.between(0, self._between_ms_max))]

    def next_request(self) -> RequestId:
        self._requests += 1
        return RequestId(self._requests)

    def ask(self, message: Message) -> list[Effect]:
        """Send a request and wait for its answer."""
        self._asked = message
        return [Send(self._server, message), SetTimer(TIMEOUT, self._timeout_ms)]

    @property
    def asked(self) -> Message | None:
        """What it waits for an answer to."""
        return self._asked

    def at(self) -> int:
        """Virtual time, for a recorder."""
        return self.world.virtual.elapsed_ns

    def _is_answer(self, message: Message) -> bool:
        return self._asked is not None and _request_of(message) == _request_of(self._asked)

    def _end(self, answer: Message | None) -> list[Effect]:
        asked, self._asked = self._asked, None
        return [] if asked is None else self.answered(asked, answer)


def _request_of(message: Message) -> object:
    return getattr(message, "request", None)
