"""What an exploration answers, and what it tells on its way."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
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


# Time, memory and the budget of an exploration, looked at now and then.

_PROGRESS_SECONDS = 0.5


class Watch:
    """Tells how an exploration goes, and when it has to stop."""

    def __init__(self, budget: Budget, progress: Callable[[Progress], None] | None) -> None:
        self._budget, self._progress = budget, progress
        self._began, self._began_cpu = time.monotonic(), time.process_time()
        self._told = self._began
        self._cpu_of_others = 0.0

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    @property
    def cpu_seconds(self) -> float:
        """Of this process since the beginning, and of those that worked for it."""
        return time.process_time() - self._began_cpu + self._cpu_of_others

    def add_cpu(self, seconds: float) -> None:
        """Another process has worked so long."""
        self._cpu_of_others += seconds

    def look(self, distinct: int, generated: int, depth: int, queue: int) -> str | None:
        """Report if it is time to. Answers the reason to stop, if there is one."""
        now = time.monotonic()
        if self._progress is not None and now - self._told >= _PROGRESS_SECONDS:
            self._told = now
            rate = int(distinct / (now - self._began))
            self._progress(Progress(distinct, generated, depth, queue, rate, memory_mb()))
        if distinct >= self._budget.states:
            return f"the budget of {self._budget.states:,} states is used up"
        if self._budget.seconds is not None and now - self._began > self._budget.seconds:
            return f"the budget of {self._budget.seconds:g} seconds is used up"
        return None


def memory_mb() -> int:
    """The most memory this process has used so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1024 * 1024 if sys.platform == "darwin" else 1024)
