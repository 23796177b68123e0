"""Where to cut the feed: by counting the changes of the records, without reading any."""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.index import Index
from motet.core.onelog.keeping import begin_of
from motet.core.onelog.messages import FeedSplit, SplitFeed
from motet.core.onelog.places import Places


def split(index: Index, message: SplitFeed, database: int, visible: Clock) -> FeedSplit:
    """The slice behind ``after``, cut into splits of about the same size.

    It ends with a record that has changes, so a reader who follows is not woken by anything else: what
    is published from the feed would otherwise look like news to the one who publishes.
    """
    places = index.places
    after = begin_of(index, message.streams, message.after)
    first = places.first_after(after)
    behind = places.first_after(visible if message.up_to is None else min(visible, message.up_to))
    base = places.total_before(first)
    end = places.total_before(behind) if behind > first else base
    last_total = places.total_before(places.first_after(visible))
    if message.changes_max is not None and end - base > message.changes_max:
        # The record that goes beyond the bound is left out, unless it is the first with changes.
        end = places.total_before(places.exceeding(base + message.changes_max, first, behind))
        if end == base:
            end = places.total_before(places.exceeding(base, first, behind) + 1)
    if end == base:
        bounds: tuple[Clock, ...] = (after or ZERO,)
    else:
        bounds = _bounds(places, base, end, first, behind, message.splits)
    return FeedSplit(
        message.request, database, visible, bounds, end - base, max(last_total - end, 0)
    )


def _bounds(
    places: Places, base: int, end: int, first: int, behind: int, splits: int
) -> tuple[Clock, ...]:
    found: list[Clock] = []
    for number in range(1, splits + 1):
        target = base + (end - base) * number // splits
        if target == base:
            continue
        clock = places.clock_of(places.reaching(target, first, behind))
        if not found or clock > found[-1]:
            found.append(clock)
    return tuple(found)
