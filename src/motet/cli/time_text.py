"""Times and places in the feed, as they are typed: ``1h``, a cursor, a clock."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from motet.errors import BadInput

if TYPE_CHECKING:
    from motet.core.clock.hlc import Clock

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d)")


def parse_duration(text: str) -> timedelta:
    """``90s``, ``30m``, ``1h``, ``7d``."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise BadInput(
            f"{text[:60]!r} is not a length of time", hint="for instance 90s, 30m, 1h or 7d"
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def parse_clock(text: str | None) -> Clock | None:
    """``(logical,counter)``."""
    from motet.core.clock.hlc import Clock

    return None if text is None else Clock.parse(text)


def parse_place(text: str | None) -> str | Clock | None:
    """A cursor, a clock, or ``oldest``."""
    return parse_clock(text) if text is not None and text.lstrip().startswith("(") else text
