"""How far a pipeline is, what is left to do of a slice of the feed, and the cursor that keeps the rest.

The truth is the pipeline's last step in the database: it was written in the same commit as the rows that it
stands for. What Spark remembers, its checkpoint, is only where Spark goes on reading, and may be
missing, old, or copied; so each slice that Spark hands out is held against the truth:

========================  =====================================================================
the slice ``(from, to]``  what happens
========================  =====================================================================
``to <= done``            skip: its rows are published, whoever did it
``from <= done < to``     work: on the changes after ``done`` and up to ``to``, as one step
``from > done``           refused: changes between ``done`` and ``from`` would be lost for ever
========================  =====================================================================

where ``done`` is the clock that the tables reflect, ``ZERO`` before the first step.

P1  The steps of a pipeline form a chain: each begins where the one before ended. A step whose epoch or
    beginning is not the next one is refused by the database, so a second driver cannot break it either.
P2  Each change is in one step.

The named cursor of a pipeline, or of a query, keeps what it has not worked on yet from being pruned:

F1  The cursor is never above the clock that the tables reflect: it is saved after a step is published, so a
    driver that is killed in between leaves it too low, which keeps more than is needed.
F2  It is saved before the first change is read, so a pipeline that starts holds what it is about to read.
F3  It is kept for the streams that the pipeline reads, and for no other. That is also how the database knows
    which streams these are.
F4  A pipeline that has done nothing yet begins at the beginning of its streams. Where they are pruned to
    different places it has to be told to begin at the oldest change that all of them have: what some of them
    have below would be missing.

It stays when the pipeline ends: the next run needs what is above it. ``motet pipeline remove NAME`` drops
it. The cursor of a query of Spark's has the name that its option ``cursor`` says, and is saved when Spark
commits a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from motet.client.cursors import OLDEST, FeedPosition, NamedCursor, cursor_text, pipeline_cursor
from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.messages import PublishedStep
from motet.errors import BadCheckpoint
from motet.errors.shards import CursorExpired
from motet.ids import StreamName, WriterName

if TYPE_CHECKING:
    from motet.client.sync import Database


@dataclass(frozen=True, slots=True)
class Slice:
    """Changes after one clock and up to another."""

    after: Clock
    through: Clock


def place_after(done: Clock) -> Clock | Literal["oldest"]:
    """Where to read on from; whoever has done nothing yet begins at the oldest change that is kept."""
    return OLDEST if done == ZERO else done


def done_through(last: WriterStep | None) -> Clock:
    """The clock that the tables reflect."""
    return ZERO if last is None else last.through


def decide(
    writer: WriterName, last: WriterStep | None, slice_: Slice, feed: int | None = None
) -> WriterStep | None:
    """The step to take for a slice that Spark has handed out; None if it has been taken.

    ``feed`` is the number of the database that the slice is of, if it is not the one with the tables.
    """
    done = done_through(last)
    if slice_.through <= done:
        return None
    if slice_.after > done:
        raise BadCheckpoint(
            f"the checkpoint of {writer} begins after {slice_.after}, and its tables reflect {done}",
            hint="remove the checkpoint: the pipeline goes on from what is published",
        )
    if last is None:
        return WriterStep(writer, 0, None, slice_.through, feed)
    return WriterStep(writer, last.epoch + 1, last.through, slice_.through, feed)


def worked_on(step: WriterStep) -> Slice:
    """The changes that a step is about."""
    return Slice(ZERO if step.after is None else step.after, step.through)


def slices_of(steps: Sequence[PublishedStep], last: WriterStep) -> list[Slice]:
    """The slices of the steps that are remembered of a writer up to this one, oldest first."""
    earlier = [step for step in steps if step.epoch < last.epoch]
    slices = [Slice(ZERO if step.after is None else step.after, step.through) for step in earlier]
    return [*slices, worked_on(last)]


class FeedCursor:
    """The cursor of one reader of some streams."""

    def __init__(self, source: Database, name: str, streams: tuple[str, ...]) -> None:
        self._source = source
        self.name = name
        self._streams = tuple(sorted(map(StreamName, streams)))

    def hold_if_missing(self, done: Clock) -> None:
        """Keep everything above a clock, unless the cursor is there: then it is not above that clock."""
        known = cursor_of(self._source.cursors(), self.name)
        if known is None or known.streams != self._streams:
            self.hold(done)

    def check_begin(self) -> None:
        """``CursorExpired`` if one that has done nothing cannot begin at the beginning of all streams (F4).

        Where it begins was decided when there is a cursor already.
        """
        known = cursor_of(self._source.cursors(), self.name)
        if known is None or known.streams != self._streams:
            self._source.split_feed(*self._streams, changes_max=1)

    def hold(self, done: Clock) -> Clock:
        """Keep everything above the clock up to which all is done, and say where to begin.

        ``CursorExpired`` if some of it is gone.
        """
        while True:
            # One that has done nothing yet begins at the oldest change that is kept.
            begin = done if done > ZERO else self._source.oldest(*self._streams)
            try:
                self._save(begin)
                break
            except CursorExpired:
                if done > ZERO:
                    raise
        known = cursor_of(self._source.cursors(), self.name)
        others = [] if known is None else [s for s in known.streams if s not in self._streams]
        if others:
            self._source.drop_cursor(self.name, *others)
        return begin

    @property
    def is_held(self) -> bool:
        """Whether the cursor is there."""
        return cursor_of(self._source.cursors(), self.name) is not None

    def advance(self, done: Clock) -> None:
        """What has been read up to this clock is done."""
        # What was pruned by force is found when it is read.
        with suppress(CursorExpired):
            self._save(done)

    def _save(self, clock: Clock) -> None:
        cursor = FeedPosition(self._source.database_id, clock, self._streams)
        self._source.save_cursor(self.name, cursor_text(cursor))


def cursor_name(db: Database, pipeline: str, feed: Database | None) -> str:
    """The name of a pipeline's cursor: two databases may have pipelines of one name over the same feed."""
    return pipeline_cursor(pipeline, None if feed is None else db.database_id)


def cursor_of(cursors: list[NamedCursor], name: str) -> NamedCursor | None:
    """The cursor of this name, if there is one."""
    return next((each for each in cursors if each.name == name), None)


def expired(pipeline: str, done: Clock, error: CursorExpired) -> CursorExpired:
    """What it means for a pipeline that changes which it has not read are pruned."""
    so_far = f"has published up to {done}" if done > ZERO else "has published nothing yet"
    return CursorExpired(
        f"pipeline {pipeline} {so_far}, and changes after that are pruned: {error.what}",
        hint="rebuild it: run it with another --name, other names for its tables and --after oldest; "
        "it then begins at the oldest change that is kept",
    )


def no_common_begin(pipeline: str, oldest: Clock, error: CursorExpired) -> CursorExpired:
    """What it means for a new pipeline that its streams are pruned to different places (F4)."""
    return CursorExpired(
        f"pipeline {pipeline} has published nothing yet, and {error.what}",
        hint=f"run it with --after oldest (in Python after='oldest') to begin after {oldest}, "
        "or read the streams in pipelines of their own",
    )
