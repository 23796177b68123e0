"""What an exploration answers, and what it tells on its way."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from motet import limits

Outcome: TypeAlias = Literal["ok", "violated", "unknown"]


class Step(msgspec.Struct, frozen=True):
    """One step of a trace: the action that was taken and what it changed."""

    #: ``Init`` for the first
    action: str
    changed: tuple[str, ...]
    #: the whole state after it
    state: str


class Exploration(msgspec.Struct):
    """How an exploration ended. The counts are TLC's: depth counts states, generated counts repeats."""

    model: str
    settings: dict[str, int]
    verdict: Outcome
    distinct: int
    depth: int
    generated: int
    seconds: float
    cpu_seconds: float
    #: which engine, with or without symmetry
    engine: str
    #: the properties that were looked at
    properties: tuple[str, ...]
    #: how often each action was taken; one that never was says nothing
    coverage: dict[str, int]
    property: str | None = None
    trace: tuple[Step, ...] = ()
    #: for a behaviour that goes on for ever, where in the trace it comes back to; else ``None``
    loops_to: int | None = None
    #: why the verdict is unknown
    reason: str | None = None


class Progress(msgspec.Struct, frozen=True):
    """Where an exploration is."""

    distinct: int
    generated: int
    depth: int
    queue: int
    distinct_per_second: int
    memory_mb: int

    def __str__(self) -> str:
        return (
            f"depth {self.depth}: {self.distinct:,} states, {self.generated:,} generated, "
            f"{self.queue:,} queued, {self.distinct_per_second:,}/s, {self.memory_mb} MB"
        )


class Budget(msgspec.Struct, frozen=True):
    """How much work an exploration may do before it says that it does not know."""

    states: int = limits.explored_states_max
    seconds: float | None = None
