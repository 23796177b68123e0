"""Cutting the feed into slices and splits, for readers that work bit by bit or side by side."""

from __future__ import annotations

import msgspec

from motet.client.calls import Calls
from motet.client.rows import stream_names, whole_number
from motet.core.clock.hlc import Clock
from motet.core.onelog.messages import FeedSplit, SplitFeed
from motet.errors import BadInput
from motet.limits import feed_splits_max

changes_max_max = (1 << 62) - 1


class FeedPlan(msgspec.Struct, frozen=True):
    """A slice of the feed, cut into splits that readers can read side by side."""

    #: each is read behind its first clock and up to its second
    splits: tuple[tuple[Clock, Clock], ...]
    #: changes in the slice; of an embedded database those of other streams are counted too
    changes: int
    #: what is known to be behind the slice
    changes_after: int
    visible: Clock

    @property
    def up_to(self) -> Clock:
        """Where the slice ends, and the next one begins: between two transactions."""
        return self.splits[-1][1]


def plan_of(split: FeedSplit, after: Clock) -> FeedPlan:
    """A slice with the clocks it begins and ends with."""
    starts = (after, *split.bounds[:-1])
    splits = tuple(zip(starts, split.bounds, strict=True))
    return FeedPlan(splits, split.changes, split.changes_after, split.visible)


async def split_feed(
    calls: Calls,
    streams: tuple[str, ...],
    behind: Clock | None,
    up_to: Clock | None,
    changes_max: int | None,
    splits: int,
) -> FeedSplit:
    """Where to cut the feed behind a clock."""
    names = stream_names(streams)
    if not isinstance(up_to, Clock | None):
        raise BadInput(f"up_to is a clock, not {type(up_to).__name__}")
    if changes_max is not None:
        whole_number("changes_max", changes_max, 1, changes_max_max)
    whole_number("splits", splits, 1, feed_splits_max)
    return await calls.repeated(
        lambda n: SplitFeed(n, names, behind, up_to, changes_max, splits), FeedSplit
    )
