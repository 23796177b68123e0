"""Time: what the two clocks of a node say right now."""

from __future__ import annotations

from typing import Protocol

from motet.core.machine import Now


class Time(Protocol):
    """A monotonic clock, and a wall clock that may jump."""

    def now(self) -> Now:
        """Read both."""
