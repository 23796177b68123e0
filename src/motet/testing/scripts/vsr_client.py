"""A client on the workbench: what a script has it ask, it asks, and tells what came of it."""

from __future__ import annotations

from typing import Self

from motet.core.machine import Effect, Event, Fired, Message, Note, Received, Started, Violation
from motet.core.vsr.client import Client, Evicted, ReadAt, Result
from motet.core.vsr.config import VsrConfig
from motet.ids import ClientId
from motet.testing.register import BATCH
from motet.testing.scripts.vsr_told import told_results

ANSWER = "answer"
"""A note of a client that is not muted: what it was told."""


class Submit(Message, frozen=True):
    """The script: have this batch of calls done."""

    body: bytes


class Barrier(Message, frozen=True):
    """The script: find out how new a state must be to be read."""


class BenchClient:
    """One session, as a machine. What the script wants while something is in flight waits for its turn."""

    def __init__(
        self, config: VsrConfig, client: ClientId, *, reserved: bool, release: int
    ) -> None:
        self.client = Client(config, client, reserved=reserved, release=release)
        self.waiting: list[Message] = []
        #: requests that were answered
        self.answered = 0
        self.is_over = False

    def step(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(event, Started):
            effects = self.client.begin(event.now)
        elif isinstance(event, Fired):
            effects = self.client.on_timer(event.timer, event.now)
        elif isinstance(event, Received) and isinstance(event.message, Submit | Barrier):
            self.waiting.append(event.message)
        elif isinstance(event, Received):
            effects = self.client.on_message(event.sender, event.message, event.now)
        result = self.client.take_result()
        if result is not None:
            effects = [*effects, Note(ANSWER, self._told(result))]
        return effects + self._ask_next(event)

    def _ask_next(self, event: Event) -> list[Effect]:
        if not self.waiting or not self.client.is_idle:
            return []
        wanted = self.waiting.pop(0)
        if isinstance(wanted, Submit):
            return self.client.submit(BATCH, wanted.body, event.now)
        return self.client.read_barrier(event.now)

    def _told(self, result: Result) -> str:
        if isinstance(result, Evicted):
            self.is_over = True
            return f"evicted: {result.reason}"
        if isinstance(result, ReadAt):
            return f"may read at op {result.op}"
        self.answered += 1
        if result.request == 0:
            return f"registered, session {result.op}"
        return f"#{result.request} at op {result.op}: {told_results(result.body)}"

    @property
    def is_busy(self) -> bool:
        return not self.is_over and (bool(self.waiting) or not self.client.is_idle)

    # What a bench needs

    def clone(self) -> Self:
        state = self.client.state
        twin = type(self)(self.client.config, state.client, reserved=False, release=state.release)
        twin.client = self.client.clone()
        twin.waiting, twin.answered = list(self.waiting), self.answered
        twin.is_over = self.is_over
        return twin

    def fingerprint(self) -> bytes:
        return self.client.fingerprint()

    def invariants(self) -> list[Violation]:
        return []
