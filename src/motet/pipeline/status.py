"""How pipelines fare: what each has published, its lag, and what went wrong; and removing one for good.

Of a removed pipeline the named cursor goes, so the feed can be pruned past it, and so does its checkpoint.
Its tables stay, and so does what it has published last: an ordered writer is never forgotten, and a run
under the same name goes on from there, if the changes after that are still kept. Until then its status says
that it was removed.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from motet.client.cursors import NamedCursor
from motet.client.publication import WriterInfo
from motet.core.clock.hlc import Clock
from motet.errors import BadCheckpoint, BadInput, MotetError, NodeError
from motet.errors.shards import CursorExpired
from motet.limits import page_changes_max
from motet.pipeline.checkpoint import Checkpoint, default_folder
from motet.pipeline.progress import cursor_name, cursor_of, done_through, expired

if TYPE_CHECKING:
    from motet.client.sync import Database


counted_changes_max = 100_000
"""So many changes of all streams are looked at, and those of a pipeline's streams counted.

What follows is added as it is known: by an embedded database for all streams together.
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
    """How far tables lag: in milliseconds, and in changes of these streams."""
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


REMOVED = "removed; its tables stay, and a run under this name goes on from them"
"""What the status of a removed pipeline says."""


@dataclass(frozen=True, slots=True)
class RemovedPipeline:
    """What was released."""

    pipeline: str
    #: the name of its cursor, where that was, and the streams it held; None and none: it had no cursor
    cursor: str | None
    clock: Clock | None
    streams: tuple[str, ...]
    #: the folder with Spark's notes; None: there was none
    checkpoint: Path | None
    #: what it has published, and stays
    tables: tuple[str, ...]


def remove_pipeline(
    db: Database, name: str, *, feed: Database | None = None, checkpoint: Path | None = None
) -> RemovedPipeline:
    """Drop the cursor and the checkpoint of a pipeline; its tables stay.

    ``BadInput`` if there is none of this name, ``NodeError`` if a driver has its checkpoint: it runs. One
    with a checkpoint elsewhere, as on another machine, is not seen here; it ends with its next step.
    """
    info = db.writer(name)
    source = feed or db
    cursor = cursor_of(source.cursors(), cursor_name(db, name, feed))
    if cursor is None and (info is None or info.error == REMOVED):
        raise BadInput(
            f"there is no pipeline {name!r} to be removed",
            hint="`motet pipeline status` lists all of them",
        )
    folder = checkpoint or default_folder(None, db.database_id, name)
    notes = _notes_of(folder, source.database_id, name)
    try:
        if cursor is not None:
            source.drop_cursor(cursor.name)
        if info is not None:
            db.note_writer(name, REMOVED)
        if notes is not None:
            _remove_folder(folder)
    finally:
        if notes is not None:
            notes.close()
    return RemovedPipeline(
        name,
        None if cursor is None else cursor.name,
        None if cursor is None else cursor.clock,
        () if cursor is None else tuple(map(str, cursor.streams)),
        None if notes is None else folder,
        () if info is None else tuple(map(str, info.tables)),
    )


def _notes_of(folder: Path, database: int, name: str) -> Checkpoint | None:
    """The checkpoint, which is ours from now on; None: there is none."""
    if not folder.is_dir():
        return None
    try:
        return Checkpoint(folder, database, name)
    except NodeError as error:
        raise NodeError(
            f"pipeline {name} is running: {error.what}",
            hint="stop it with ^C or SIGTERM, then remove it",
        ) from None


def _remove_folder(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise BadCheckpoint(
            f"the cursor is dropped, but {folder} cannot be removed: {error.strerror}",
            hint="remove the folder",
        ) from None
