"""Marzullo's algorithm: what several sources, some of them wrong, agree on.

Each source gives an interval that holds the true value if the source is right. Two questions can be
asked of a number of them, and one sweep over their sorted ends answers either:

* ``smallest_agreed``: the smallest interval that the largest number of sources has in common. It is the
  best guess. It is no guarantee: a liar that reaches into the intervals of honest sources can draw it
  to where the truth is not.
* ``span_agreed``: from the lowest to the highest point that at least so many sources have in common. It
  is wider, and it holds the truth whenever so many of the sources are right, whatever the others say,
  since the truth itself is one of those points.

Intervals are closed: two that touch have a point in common. Numbers are whole, of any unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec


class Interval(msgspec.Struct, frozen=True, order=True):
    """From ``lower`` to ``upper``, both included."""

    lower: int
    upper: int

    @property
    def width(self) -> int:
        return self.upper - self.lower

    @property
    def middle(self) -> int:
        return (self.lower + self.upper) // 2


class Agreement(msgspec.Struct, frozen=True):
    """An interval, and how many sources have all of it in common."""

    interval: Interval
    sources: int


def smallest_agreed(intervals: Sequence[Interval]) -> Agreement | None:
    """What most sources agree on; among equals the smallest, then the lowest. None without a source."""
    best: Agreement | None = None
    for piece in _pieces(intervals):
        if best is None or _rank(piece) < _rank(best):
            best = piece
    return best


def span_agreed(intervals: Sequence[Interval], sources_min: int) -> Interval | None:
    """From the first to the last point on which so many sources agree; None if there is none."""
    assert sources_min > 0, "any point at all is agreed on by no source"
    agreed = [p.interval for p in _pieces(intervals) if p.sources >= sources_min]
    if not agreed:
        return None
    return Interval(agreed[0].lower, max(interval.upper for interval in agreed))


def _rank(agreement: Agreement) -> tuple[int, int, int]:
    return (-agreement.sources, agreement.interval.width, agreement.interval.lower)


def _pieces(intervals: Sequence[Interval]) -> list[Agreement]:
    """The ranges between neighbouring ends, from low to high, with the sources each has in common."""
    # Among equal ends those that open come first, so that intervals that touch count as overlapping.
    opens, closes = -1, 1
    ends = sorted(
        [(interval.lower, opens) for interval in intervals]
        + [(interval.upper, closes) for interval in intervals]
    )
    sources = 0
    pieces = []
    for (at, kind), (following, _) in pairwise(ends):
        sources -= kind
        if sources > 0:
            pieces.append(Agreement(Interval(at, following), sources))
    return pieces
