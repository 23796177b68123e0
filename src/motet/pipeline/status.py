"""How pipelines fare: what each has published, how far it is behind, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from motet.client.cursors import NamedCursor
from motet.core.clock.hlc import Clock
from motet.core.tables.messages import WriterInfo
from motet.errors import BadInput, MotetError
from motet.errors.shards import CursorExpired
from motet.limits import page_changes_max
from motet.pipeline.feed_cursor import cursor_name, cursor_of, expired
from motet.pipeline.progress import done_through

if TYPE_CHECKING:
    from motet.client.sync import Database


counted_changes_max = 100_000
"""So many changes of all streams are looked at, and those of a pipeline's streams counted.

What is behind that is added as it is known: by an embedded database for all streams together.
"""


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """One pipeline."""

    pipeline: str
    #: what its tables reflect; None before the first step
    clock: Clock | None
    #: how far the visible clock is ahead while there is something to do, in milliseconds; None before the
    #: first step, too
    lag_ms: int | None
    #: changes of its streams that are still to be looked at; both None when that cannot be known: the feed is
    #: elsewhere, or the pipeline has no cursor that says which streams it reads, or ``error`` says why
    changes_after: int | None
    rows: int
    steps: int
    tables: tuple[str, ...]
    published: datetime | None
    #: why it stands still: what is found now, else what its last run ended with; empty when all is well
    error: str


def pipeline_status(
    db: Database, name: str | None = None, feed: Database | None = None
) -> list[PipelineStatus]:
    """All pipelines that have ever published or failed, or the one of this name.

    ``feed`` is the database whose changes they work in, if it is not the one with their tables.
    """
    if name is None:
        found = _Found(db, feed)
        return [found.status(info) for info in db.writers()]
    info = db.writer(name)
    if info is None:
        raise BadInput(
            f"there is no pipeline {name!r} that has published or failed",
            hint="`motet pipeline status` lists all of them",
        )
    return [_Found(db, feed).status(info)]


def lag(db: Database, streams: tuple[str, ...], done: Clock) -> tuple[int, int]:
    """How far tables are behind: in milliseconds, and in changes of these streams."""
    split = db.split_feed(*streams, after=done, changes_max=counted_changes_max)
    changes = split.changes_after
    if split.changes:
        changes += _count(db, streams, done, split.bounds[-1])
    lag_ms = max(split.visible.logical - done.logical, 0) if changes else 0
    return lag_ms, changes


def _count(db: Database, streams: tuple[str, ...], after: Clock, up_to: Clock) -> int:
    """Changes of these streams: a split of an embedded database counts those of all others, too."""
    page = db.changes(*streams, after=after, up_to=up_to, limit=page_changes_max)
    count = len(page)
    while page.more:
        page = db.changes(*streams, after=page.cursor, up_to=up_to, limit=page_changes_max)
        count += len(page)
    return count


class _Found:
    """The cursors of all pipelines of one feed; what is wrong with one pipeline is told in its own row."""

    def __init__(self, db: Database, feed: Database | None) -> None:
        self._db = db
        self._feed = feed
        self._source = feed or db
        self._cursors: list[NamedCursor] | MotetError
        try:
            self._cursors = self._source.cursors()
        except MotetError as error:
            self._cursors = error

    def status(self, info: WriterInfo) -> PipelineStatus:
        lag_ms: int | None = None
        changes_after: int | None = None
        error = info.error
        try:
            if self._is_of_this_feed(info):
                lag_ms, changes_after = self._lag(info)
        except CursorExpired as found:
            error = str(expired(str(info.writer), done_through(info.step), found))
        except MotetError as found:
            error = str(found)
        has_published = info.step is not None
        return PipelineStatus(
            str(info.writer),
            info.step.through if info.step is not None else None,
            lag_ms if has_published else None,
            changes_after,
            info.rows,
            info.steps,
            tuple(str(table) for table in info.tables),
            datetime.fromtimestamp(info.published_ms / 1000, UTC) if has_published else None,
            error,
        )

    def _is_of_this_feed(self, info: WriterInfo) -> bool:
        ours = None if self._feed is None else self._feed.database_id
        return info.step is None or info.step.feed == ours

    def _lag(self, info: WriterInfo) -> tuple[int | None, int | None]:
        if isinstance(self._cursors, MotetError):
            raise self._cursors
        cursor = cursor_of(self._cursors, cursor_name(self._db, str(info.writer), self._feed))
        if cursor is None:
            return None, None
        # One that has published nothing begins where its cursor is.
        done = cursor.clock if info.step is None else info.step.through
        return lag(self._source, tuple(map(str, cursor.streams)), done)
