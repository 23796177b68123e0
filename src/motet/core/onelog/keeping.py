"""What is kept of the feed of streams, and for whom: the rules of a cluster's shards, by stream.

The rules are P1 and P2 of :mod:`motet.core.streams.orders`. An order for several streams is one record of
the log: all of them obey it, or none. What is pruned is not shown in the feed any more; the log, which it
shares with other streams and with tables, gives it back a file at a time (``clearing``).

The feed of several streams begins at the highest of their low watermarks. Below it some of them would be
missing, and with them parts of transactions. A reader that names no clock is refused
if others of the streams have more (``common_begin``).
"""

from __future__ import annotations

from collections.abc import Iterable

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.onelog.change import FeedOrdered
from motet.core.onelog.index import Index
from motet.core.onelog.messages import DescribeFeed, FeedDescribed, FeedObeyed, KeptFeed, OrderFeed
from motet.core.onelog.overlay import Overlay
from motet.core.onelog.planned import Answered, Planned
from motet.core.streams.orders import KeptFrom, common_begin
from motet.errors import NoSuchStream
from motet.errors.shards import CursorExpired
from motet.ids import StreamName


def plan_order(
    index: Index, overlay: Overlay, message: OrderFeed, clock: Clock
) -> Planned | Answered:
    """The record of an order that changes something; an error if one of the streams cannot obey it."""
    for name in message.streams:
        if overlay.sharding(index, name) is None:
            raise NoSuchStream(f"there is no stream {name!r}")
    # What was put into the log before has a lower clock, and nothing follows there.
    closed = plus(clock, -1)
    changed = [overlay.rules(index, name).check(message.order, closed) for name in message.streams]
    done = FeedObeyed(message.request)
    if any(changed):
        return Planned(FeedOrdered(clock, message.streams, message.order), done)
    return Answered(done, overlay.orders[-1].clock if overlay.orders else ZERO)


def describe(index: Index, message: DescribeFeed) -> FeedDescribed:
    """What is kept of these streams, of all if none is named."""
    names = message.streams or sorted(index.streams)
    kept = []
    for name in names:
        rules = index.streams[name].rules
        kept.append(KeptFeed(name, tuple(sorted(rules.cursors.items())), rules.low_watermark))
    return FeedDescribed(message.request, tuple(kept))


def begin_of(index: Index, streams: Iterable[StreamName], after: Clock | None) -> Clock | None:
    """Where a reader of these streams begins who has everything up to a clock.

    The beginning is the low watermark, if all have the same; a clock below it is ``CursorExpired``.
    """
    known = [index.streams[name] for name in streams if name in index.streams]
    low_watermark = max((stream.rules.low_watermark for stream in known), default=ZERO)
    if after is None or after == ZERO:
        common_begin(
            [KeptFrom(each.name, each.rules.low_watermark, each.created) for each in known]
        )
        return low_watermark if low_watermark > ZERO else after
    if after < low_watermark:
        raise CursorExpired(
            f"the feed is pruned up to {low_watermark}", hint=f"read on after {low_watermark}"
        )
    return after
