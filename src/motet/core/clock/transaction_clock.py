"""One clock for a transaction over several nodes: ask each for a tick, take the highest, move all to it.

After that, whatever any of the participants hands out is above the transaction's clock, and the clock is
above whatever they had handed out before: a transaction that comes after this one, on any of these
nodes, has a higher clock.

The procedure is plain state for a coordinator to hold. It says whom to ask, and is told what came of it::

    ticking ── every tick is in ──▶ adjusting ── every adjust is in ──▶ done
       └───────── a participant failed ─────┴──▶ failed

Rules:

X1  Each participant is asked once per phase, however often it is named.
X2  The clock is the highest of all ticks, and is there only when all have moved to it. When one
    participant fails there is no clock, though the others may have moved; that is allowed.
X3  An answer from a stranger, a second answer, and one that comes after the end change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from motet.core.clock import hlc
from motet.core.clock.hlc import Clock
from motet.ids import NodeId

Phase = Literal["ticking", "adjusting", "done", "failed"]

# What the coordinator is asked to do


class AskTick(msgspec.Struct, frozen=True):
    """Ask this node for a tick."""

    node: NodeId


class AskAdjust(msgspec.Struct, frozen=True):
    """Ask this node to move up to the clock."""

    node: NodeId
    clock: Clock


Ask = AskTick | AskAdjust

# What came of it


class TickAnswered(msgspec.Struct, frozen=True):
    """The node handed out a clock."""

    node: NodeId
    clock: Clock


class AdjustAnswered(msgspec.Struct, frozen=True):
    """The node is at or above the transaction's clock."""

    node: NodeId


class ParticipantFailed(msgspec.Struct, frozen=True):
    """The node refused, cannot be reached, or did not answer in time."""

    node: NodeId
    why: str


Answer = TickAnswered | AdjustAnswered | ParticipantFailed


class TransactionClock(msgspec.Struct):
    """The way of one transaction to its clock."""

    #: each once, in the order in which they were named
    participants: tuple[NodeId, ...]
    phase: Phase = "ticking"
    ticks: dict[NodeId, Clock] = msgspec.field(default_factory=dict)
    adjusted: dict[NodeId, bool] = msgspec.field(default_factory=dict)
    #: the highest tick, once all are in
    highest: Clock | None = None
    failure: ParticipantFailed | None = None

    @staticmethod
    def over(participants: Iterable[NodeId]) -> TransactionClock:
        """A transaction over these nodes, the coordinator's own among them if it takes part."""
        once = tuple(dict.fromkeys(participants))
        assert once, "a transaction has a participant"
        return TransactionClock(once)

    @property
    def clock(self) -> Clock | None:
        """The transaction's clock, when it is done."""
        return self.highest if self.phase == "done" else None

    def begin(self) -> list[Ask]:
        return [AskTick(node) for node in self.participants]

    def step(self, answer: Answer) -> list[Ask]:
        """Take one answer in; returns whom to ask next."""
        if answer.node not in self.participants:
            return []
        if isinstance(answer, TickAnswered):
            return self._on_tick(answer)
        if isinstance(answer, AdjustAnswered):
            self._on_adjusted(answer)
        else:
            self._on_failed(answer)
        return []

    def _on_tick(self, answer: TickAnswered) -> list[Ask]:
        if self.phase != "ticking" or answer.node in self.ticks:
            return []
        self.ticks[answer.node] = answer.clock
        if len(self.ticks) < len(self.participants):
            return []
        self.phase = "adjusting"
        self.highest = highest = hlc.maximum(self.ticks.values())
        return [AskAdjust(node, highest) for node in self.participants]

    def _on_adjusted(self, answer: AdjustAnswered) -> None:
        if self.phase != "adjusting":
            return
        self.adjusted[answer.node] = True
        if len(self.adjusted) == len(self.participants):
            self.phase = "done"

    def _on_failed(self, answer: ParticipantFailed) -> None:
        if self.phase in ("ticking", "adjusting"):
            self.phase = "failed"
            self.failure = answer
