"""The named cursor of a pipeline or of a query: nothing that it has not worked on yet is pruned.

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

from contextlib import suppress
from typing import TYPE_CHECKING

from motet.client.cursors import FeedPosition, NamedCursor, cursor_text, pipeline_cursor
from motet.core.clock.hlc import ZERO, Clock
from motet.errors.shards import CursorExpired
from motet.ids import StreamName

if TYPE_CHECKING:
    from motet.client.sync import Database


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
