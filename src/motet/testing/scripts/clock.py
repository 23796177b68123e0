"""Golden scripts about clock values: their text, and their order.

The clock of a node is shown by the scripts of ``datanode`` and ``transactions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from motet.core.clock import hlc
from motet.core.clock.hlc import Clock
from motet.errors import BadClock
from motet.testing.part import Converter, VerbPart, verb


class ClockPart(VerbPart):
    """Commands for clock values."""

    name = "clock"
    converters: ClassVar[Mapping[type, Converter]] = {Clock: Clock.parse}

    @verb
    def clock(self, text: str) -> list[str]:
        """Read a clock from text and print it."""
        try:
            return [str(Clock.parse(text))]
        except BadClock as error:
            return [f"refused {error.code}: {error.what}"]

    @verb
    def is_after(self, one: Clock, other: Clock) -> list[str]:
        """Whether one clock is after another."""
        return ["yes" if hlc.is_after(one, other) else "no"]

    @verb
    def sort(self, *clocks: Clock, below: Clock | None = None) -> list[str]:
        """Print clocks in their order; only those below one, if it is given."""
        return [str(clock) for clock in sorted(clocks) if below is None or clock < below]
