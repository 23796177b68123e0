"""Time, memory and the budget of an exploration, looked at now and then."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

from motet.verify.explore.result import Budget, Progress

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
