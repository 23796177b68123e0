"""What users are told of clocks while ``clock.enabled`` is off: none, and a warning that says so."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from motet.core.clock.hlc import Clock
from motet.core.streams.change import FeedChange, Run


class ClockOff(UserWarning):
    """Something was committed while the clock was off: it has no clock for its readers.

    Order, locks, the feed and its cursors are not concerned.
    """


class ClockVisibility:
    """Watches what comes over one connection, and warns once."""

    def __init__(self) -> None:
        self._has_warned = False

    def shown(self, clock: Clock, *, has_clock: bool) -> Clock | None:
        """The clock, if users get to see it."""
        if has_clock:
            return clock
        self._warn()
        return None

    def look_at(self, changes: Iterable[FeedChange] | Iterable[Run]) -> None:
        """Changes are about to be shown."""
        if not self._has_warned and not all(change.has_clock for change in changes):
            self._warn()

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            text = (
                "clock.enabled is off, or was when this was committed: it has no clock;"
                " `motet clock enable` turns it on, and what is committed then is above all before"
            )
            warnings.warn(text, ClockOff, stacklevel=2)
