"""One session of a client: the core's client, its timer, and who waits for what it has in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from motet.core.machine import CancelTimer, Effect, Message, Send, SetTimer
from motet.core.vsr import client as core_client
from motet.core.vsr.client import Client, Evicted, ReadAt, Replied
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.key_value import (
    BATCH,
    Omitted,
    Refused,
    Result,
    decode_results,
    join_calls,
)
from motet.core.vsr.messages import Eviction, PongClient, ReadPoint, Reply
from motet.errors import BadInput, BadRecord, NodeError, OutcomeUnknown
from motet.ids import Address, ClientId, Op
from motet.ports.entropy import Entropy
from motet.ports.time import Time

_again_seconds = 0.2
"""How long a session that was turned away waits before it registers anew."""


@dataclass(slots=True)
class Wanted:
    """What one caller wants, and his place to wait."""

    #: the calls, encoded
    body: bytes
    count: int
    #: nothing but reads, which may be asked again
    is_reading: bool
    #: to be asked without those of others
    is_alone: bool
    future: asyncio.Future[list[Result]]
    is_sent: bool = False


Batch = list[Wanted]


class Session:
    """Asks one thing at a time; a new one takes its place when it is evicted."""

    def __init__(
        self,
        config: VsrConfig,
        post: Callable[[Address, Message], None],
        changed: Callable[[], None],
        entropy: Entropy,
        time: Time,
        *,
        is_reserved: bool,
    ) -> None:
        self._config = config
        self._post = post
        #: called when there may be something to do for this session
        self._changed = changed
        self._entropy = entropy
        self._time = time
        self._is_reserved = is_reserved
        self._client = self._new_client()
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self._batch: Batch = []
        self._barriers: list[asyncio.Future[Op]] = []
        #: how many calls were in the last request
        self.last_count = 0
        self.asked_barrier = False
        self.evictions = 0

    @property
    def is_idle(self) -> bool:
        return self._client.is_idle

    @property
    def view(self) -> int:
        return self._client.state.view

    def _new_client(self) -> Client:
        return Client(self._config, ClientId(self._entropy.nonce()), reserved=self._is_reserved)

    # Asking

    def begin(self) -> None:
        """Register."""
        if not self._is_over:
            self._carry_out(self._client.begin(self._time.now()))

    def ask(self, batch: Batch) -> None:
        """Have all these calls done in one request."""
        self._batch, self.asked_barrier = batch, False
        for wanted in batch:
            wanted.is_sent = True
        self.last_count = sum(wanted.count for wanted in batch)
        body = join_calls([wanted.body for wanted in batch], self.last_count)
        self._carry_out(self._client.submit(BATCH, body, self._time.now()))

    def ask_barrier(self, barriers: list[asyncio.Future[Op]]) -> None:
        """Ask for all of them at once: the question is newer than each."""
        self._barriers, self.asked_barrier = barriers, True
        if barriers:
            self._carry_out(self._client.read_barrier(self._time.now()))

    def end(self, why: str) -> None:
        """Ask nothing any more; of what is in flight it is unknown whether it was done."""
        self._is_over = True
        self._stop_timer()
        self._lose(why)

    # Hearing

    def is_for(self, answer: Message) -> bool:
        """Whether this may concern the session: a view concerns all, and so does a read point."""
        if isinstance(answer, Reply | Eviction):
            return answer.client == self._client.state.client
        return isinstance(answer, PongClient | ReadPoint)

    def hear(self, sender: Address, answer: Message) -> None:
        if not self._is_over:
            self._carry_out(self._client.on_message(sender, answer, self._time.now()))

    def take_result(self) -> Replied | ReadAt | None:
        """What came of the request in flight; an eviction is dealt with here."""
        result = self._client.take_result()
        if isinstance(result, Evicted):
            self._evicted(result)
            return None
        return result

    def _evicted(self, evicted: Evicted) -> None:
        self.evictions += 1
        self._lose(f"the session was evicted: {evicted.reason}")
        self._stop_timer()
        self._client = self._new_client()
        # Not at once: who is turned away for what he is would be turned away again and again.
        self._timer = asyncio.get_running_loop().call_later(_again_seconds, self._begin_anew)

    def _begin_anew(self) -> None:
        self._timer = None
        self.begin()
        self._changed()

    def _lose(self, why: str) -> None:
        batch, self._batch = self._batch, []
        for wanted in batch:
            if not wanted.future.done():
                wanted.future.set_exception(OutcomeUnknown(f"no answer came: {why}"))
        barriers, self._barriers = self._barriers, []
        for barrier in barriers:
            if not barrier.done():
                barrier.set_exception(NodeError(f"no answer came: {why}", hint="try again"))

    # Answers to those who wait

    def hand_out(self, replied: Replied) -> Batch:
        """Give each his results; those who read what had no room in the reply are to ask again."""
        batch, self._batch = self._batch, []
        if not batch:
            self.last_count = 0
            return []  # the reply to the register
        try:
            results = decode_results(replied.body)
        except BadRecord as error:
            return _refuse(batch, error)
        if len(results) == 1 and isinstance(results[0], Refused):
            return _refuse(batch, BadInput(f"the request was refused: {results[0].why}"))
        if len(results) != self.last_count:
            return _refuse(batch, BadRecord("the reply has another number of results"))
        left_out: Batch = []
        position = 0
        for wanted in batch:
            own = results[position : position + wanted.count]
            position += wanted.count
            is_left_out = wanted.is_reading and any(isinstance(each, Omitted) for each in own)
            if is_left_out and len(batch) > 1:
                wanted.is_alone, wanted.is_sent = True, False
                left_out.append(wanted)
            elif not wanted.future.done():
                wanted.future.set_result(own)
        return left_out

    def hand_out_barrier(self, op: Op) -> None:
        barriers, self._barriers = self._barriers, []
        for barrier in barriers:
            if not barrier.done():
                barrier.set_result(op)

    # Effects

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._post(effect.to, effect.message)
            elif isinstance(effect, SetTimer):
                assert effect.timer == core_client.RETRY, "a client has one timer"
                self._stop_timer()
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(effect.after_ms / 1000, self._ring)
            elif isinstance(effect, CancelTimer):
                self._stop_timer()

    def _ring(self) -> None:
        self._timer = None
        if not self._is_over:
            self._carry_out(self._client.on_timer(core_client.RETRY, self._time.now()))
            self._changed()  # which also lets the frames out

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _refuse(batch: Batch, error: Exception) -> Batch:
    for wanted in batch:
        if not wanted.future.done():
            wanted.future.set_exception(error)
    return []
