"""One step of an ordered writer of tables: what slice of the feed it has worked in."""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock


class WriterStep(msgspec.Struct, frozen=True, array_like=True):
    """One step of an ordered writer: its epoch, and the slice of the feed that it has worked in."""

    writer: str
    epoch: int
    #: where the slice begins: what the step before ended with; None for the first
    after: Clock | None
    #: where it ends: the tables reflect the feed up to here
    through: Clock
    #: the database or cluster whose feed that is; None for the one that the tables are in
    feed: int | None = None
