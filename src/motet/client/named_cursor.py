"""Readers of the feed that have a name, so that nothing is pruned that they have not read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.errors import BadInput
from motet.errors.shards import CursorInTheWay
from motet.ids import StreamName

PIPELINES = "pipeline/"
"""What the names of the cursors of pipelines begin with."""

in_the_way_max = 3
"""How many readers an error names that are in the way of pruning."""


def pipeline_cursor(pipeline: str, tables: int | None = None) -> str:
    """The name of a pipeline's cursor; ``tables``: the number of the database with its tables, if another."""
    return f"{PIPELINES}{pipeline}" + ("" if tables is None else f"@{tables:016x}")


class NamedCursor(msgspec.Struct, frozen=True):
    """A reader of some streams that has everything up to a clock."""

    name: str
    streams: tuple[StreamName, ...]
    clock: Clock
    #: what is behind it was pruned by force
    is_expired: bool = False

    @property
    def reader(self) -> str:
        """Who reads by it, for people."""
        if self.name.startswith(PIPELINES):
            return "pipeline " + self.name.removeprefix(PIPELINES).partition("@")[0]
        return f"the named cursor {self.name!r}"


def named_cursors(
    kept: Iterable[tuple[StreamName, tuple[tuple[str, Clock], ...], Clock]],
) -> list[NamedCursor]:
    """All named cursors by name, from what is kept of streams or shards: cursors, and the low watermark.

    The clock of one is the lowest that is kept for it.
    """
    found: dict[str, NamedCursor] = {}
    for stream, cursors, low_watermark in kept:
        for name, clock in cursors:
            known = found.get(name)
            streams = (stream,) if known is None else (*known.streams, stream)
            lowest = clock if known is None else min(clock, known.clock)
            is_expired = clock < low_watermark or (known is not None and known.is_expired)
            found[name] = NamedCursor(
                name, tuple(dict.fromkeys(sorted(streams))), lowest, is_expired
            )
    return [found[name] for name in sorted(found)]


def in_the_way(
    cursors: Iterable[NamedCursor], streams: Iterable[StreamName], up_to: Clock
) -> CursorInTheWay | None:
    """Who has not read yet what is to be pruned, and what to do about it; None: nobody."""
    pruned = dict.fromkeys(streams)
    slow = [
        each
        for each in cursors
        if each.clock < up_to and not each.is_expired and any(s in pruned for s in each.streams)
    ]
    if not slow:
        return None
    named = [f"{each.reader} has read up to {each.clock}" for each in slow[:in_the_way_max]]
    if len(slow) > in_the_way_max:
        named.append(f"{len(slow) - in_the_way_max} more have read no further")
    lowest = min(each.clock for each in slow)
    force = f"prune up to {lowest}, or prune with --force (force=True)"
    if all(each.name.startswith(PIPELINES) for each in slow):
        hint = f"run the pipeline until it has caught up, {force}: it must be rebuilt then"
    else:
        drop = "drop it with `motet feed keep NAME`"
        hint = f"let the reader catch up, {drop}, {force}: it misses changes then"
    return CursorInTheWay(f"{', '.join(named)}, below {up_to}", hint=hint)


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
