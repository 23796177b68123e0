"""Cutting the feed into slices and stretches, for readers that work bit by bit or side by side."""

from __future__ import annotations

from motet.client.calls import Calls
from motet.client.cursor import clock_behind
from motet.client.rows import stream_names, whole_number
from motet.core.clock.hlc import Clock
from motet.core.streams.messages import FeedSplit, SplitFeed
from motet.errors import BadInput
from motet.limits import feed_splits_max

changes_max_max = (1 << 62) - 1


async def split_feed(
    calls: Calls,
    database: int,
    streams: tuple[str, ...],
    after: str | Clock | None,
    up_to: Clock | None,
    changes_max: int | None,
    stretches: int,
) -> FeedSplit:
    """Where to cut the feed behind a cursor or a clock."""
    names = stream_names(streams)
    if isinstance(after, str):
        after = clock_behind(after, database=database, streams=names, name=calls.name)
    for what, clock in (("after", after), ("up_to", up_to)):
        if not isinstance(clock, Clock | None):
            raise BadInput(f"{what} is a clock, not {type(clock).__name__}")
    if changes_max is not None:
        whole_number("changes_max", changes_max, 1, changes_max_max)
    whole_number("stretches", stretches, 1, feed_splits_max)
    behind = after
    return await calls.repeated(
        lambda n: SplitFeed(n, names, behind, up_to, changes_max, stretches), FeedSplit
    )
