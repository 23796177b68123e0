"""The named cursor of a pipeline: nothing that it has not published yet is pruned.

F1  The cursor is never above the clock that the tables reflect: it is saved after a step is published, so a
    driver that is killed in between leaves it too low, which keeps more than is needed.
F2  It is saved before the first change is read, so a pipeline that starts holds what it is about to read.
F3  It is kept for the streams that the pipeline reads, and for no other. That is also how the database knows
    which streams these are.

It stays when the pipeline ends: the next run needs what is above it. ``motet feed keep pipeline/NAME`` drops it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from motet.client.cursor import Cursor, cursor_text
from motet.client.named_cursor import NamedCursor, pipeline_cursor
from motet.core.clock.hlc import ZERO, Clock
from motet.errors.shards import CursorExpired
from motet.ids import StreamName

if TYPE_CHECKING:
    from motet.client.sync import Database


class FeedCursor:
    """The cursor of one pipeline; ``feed`` is the database that it reads, if its tables are in another."""

    def __init__(
        self, db: Database, pipeline: str, streams: tuple[str, ...], feed: Database | None = None
    ) -> None:
        self._source = feed or db
        self._pipeline = pipeline
        self._streams = tuple(sorted(map(StreamName, streams)))
        self.name = cursor_name(db, pipeline, feed)

    def hold(self, done: Clock) -> None:
        """Keep everything above the clock that the tables reflect; ``CursorExpired`` if some of it is gone."""
        while True:
            # One that has published nothing begins at the oldest change that is kept.
            begin = done if done > ZERO else self._source.horizon(*self._streams)
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

    def advance(self, done: Clock) -> None:
        """A step up to this clock is published."""
        # What was pruned by force is found when it is read.
        with suppress(CursorExpired):
            self._save(done)

    def explained(self, error: CursorExpired, done: Clock) -> CursorExpired:
        """What it means for the pipeline that changes which it has not read are pruned."""
        return expired(self._pipeline, done, error)

    def _save(self, clock: Clock) -> None:
        cursor = Cursor(self._source.database_id, clock, self._streams)
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
        hint="rebuild it: run it with another --name and other names for its tables; "
        "it then begins at the oldest change that is kept",
    )
