"""Readers of the feed that have a name, so that nothing is pruned that they have not read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.errors import BadInput
from motet.ids import StreamName


class NamedCursor(msgspec.Struct, frozen=True):
    """A reader of some streams that has everything up to a clock."""

    name: str
    streams: tuple[StreamName, ...]
    clock: Clock
    #: what is behind it was pruned by force
    is_expired: bool = False


def named_cursors(
    kept: Iterable[tuple[StreamName, tuple[tuple[str, Clock], ...], Clock]],
) -> list[NamedCursor]:
    """All named cursors by name, from what is kept of streams or shards: cursors, and the horizon.

    The clock of one is the lowest that is kept for it.
    """
    found: dict[str, NamedCursor] = {}
    for stream, cursors, horizon in kept:
        for name, clock in cursors:
            known = found.get(name)
            streams = (stream,) if known is None else (*known.streams, stream)
            lowest = clock if known is None else min(clock, known.clock)
            is_expired = clock < horizon or (known is not None and known.is_expired)
            found[name] = NamedCursor(
                name, tuple(dict.fromkeys(sorted(streams))), lowest, is_expired
            )
    return [found[name] for name in sorted(found)]


def pruned_up_to(now: Clock, older_than: timedelta | None, up_to: Clock | None) -> Clock:
    """The clock that is meant; by age it counts back from the cluster's clock, not from the time of day."""
    if (older_than is None) == (up_to is None):
        raise BadInput("say either older_than or up_to", hint="older_than=timedelta(days=7)")
    if up_to is not None:
        return up_to
    assert older_than is not None
    if older_than < timedelta(0):
        raise BadInput("nothing is older than the future", hint="older_than=timedelta(days=7)")
    return max(ZERO, Clock(max(0, now.logical - int(older_than.total_seconds() * 1000)), 0))
