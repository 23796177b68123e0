"""Time as the system tells it."""

from __future__ import annotations

import time

from motet.core.machine import Now


class RealTime:
    """The time port: the monotonic clock and the time of day."""

    def now(self) -> Now:
        return Now(time.monotonic_ns(), time.time_ns())
