"""The cluster clock from outside: read it, tick it, move it up, time a transaction over several nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from motet.client.link import Link, answer_seconds_max
from motet.core.clock.hlc import Clock
from motet.core.clock.messages import (
    Adjust,
    Adjusted,
    ClockIs,
    ClockRefused,
    ReadClock,
    Tick,
    Ticked,
)
from motet.core.clock.transaction_clock import (
    AdjustAnswered,
    Answer,
    Ask,
    AskTick,
    ParticipantFailed,
    TickAnswered,
    TransactionClock,
)
from motet.errors import ClockError, MotetError, NodeError, OutcomeUnknown, error_of
from motet.format.frame import FrameKind
from motet.ids import Address, NodeId, RequestId

ClockAnswer = ClockIs | Ticked | Adjusted | ClockRefused

Expected = TypeVar("Expected", ClockIs, Ticked, Adjusted)


class ClockClient:
    """The clocks of some nodes, by name; use it as ``async with``."""

    def __init__(self, nodes: Mapping[NodeId, str], cluster: str = "motet") -> None:
        endpoints = {Address(node): endpoint for node, endpoint in nodes.items()}
        self._link: Link[ClockAnswer] = Link(endpoints, FrameKind.CLOCK, ClockAnswer, cluster)

    async def __aenter__(self) -> Self:
        await self._link.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._link.__aexit__(kind, error, trace)

    async def reach(self, node: NodeId) -> None:
        """``NodeError`` when nothing listens where the node should be."""
        await self._link.reach(Address(node))

    async def read(self, node: NodeId, seconds: float = answer_seconds_max) -> ClockIs:
        """How the node's clock stands; this promises nothing."""
        try:
            answer = await self._link.ask(Address(node), lambda n: ReadClock(RequestId(n)), seconds)
        except OutcomeUnknown as error:
            # A read changes nothing: there is nothing unknown about it, it just failed.
            hint = "check the name of the cluster, and that this is the node's base port"
            raise NodeError(error.what, hint=hint) from None
        return _expect(answer, ClockIs)

    async def tick(self, node: NodeId, seconds: float = answer_seconds_max) -> Clock:
        """A value that was never handed out before, and never will be again."""
        answer = await self._link.ask(Address(node), lambda n: Tick(RequestId(n)), seconds)
        return _expect(answer, Ticked).clock

    async def adjust(
        self, node: NodeId, clock: Clock, seconds: float = answer_seconds_max
    ) -> Clock:
        """Move the node up to this clock; ``ClockDrift`` if it is too far ahead of the node's wall."""
        answer = await self._link.ask(Address(node), lambda n: Adjust(RequestId(n), clock), seconds)
        return _expect(answer, Adjusted).clock

    async def transaction(
        self, participants: Iterable[NodeId], seconds: float = answer_seconds_max
    ) -> Clock:
        """One clock for a transaction over these nodes: the highest of a tick of each, passed by all.

        ``ClockError`` when one of them has no part in it: then there is no clock, though others may have
        moved. Each phase waits for its slowest participant at most so many seconds.
        """
        procedure = TransactionClock.over(participants)
        asks = procedure.begin()
        while asks:
            answers = await asyncio.gather(*(self._carry_out(ask, seconds) for ask in asks))
            asks = [ask for answer in answers for ask in procedure.step(answer)]
        if procedure.clock is None:
            assert procedure.failure is not None
            failure = procedure.failure
            raise ClockError(f"{failure.node} has no part in the transaction: {failure.why}")
        return procedure.clock

    async def _carry_out(self, ask: Ask, seconds: float) -> Answer:
        try:
            if isinstance(ask, AskTick):
                return TickAnswered(ask.node, await self.tick(ask.node, seconds))
            await self.adjust(ask.node, ask.clock, seconds)
            return AdjustAnswered(ask.node)
        except MotetError as error:
            return ParticipantFailed(ask.node, str(error))


def _expect(answer: ClockAnswer, kind: type[Expected]) -> Expected:
    if isinstance(answer, ClockRefused):
        raise error_of(answer.code, answer.what, answer.advice)
    if not isinstance(answer, kind):
        raise NodeError(f"a node answered with {type(answer).__name__}, not {kind.__name__}")
    return answer
