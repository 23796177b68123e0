"""Removing a pipeline that is not to run again.

Its named cursor goes, so the feed can be pruned past it, and so does its checkpoint. Its tables stay, and so
does what it has published last: an ordered writer is never forgotten, and a run under the same name goes on
from there, if the changes after that are still kept. Until then its status says that it was removed.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from motet.core.clock.hlc import Clock
from motet.errors import BadCheckpoint, BadInput, NodeError
from motet.pipeline.checkpoint import Checkpoint, default_folder
from motet.pipeline.feed_cursor import cursor_name, cursor_of

if TYPE_CHECKING:
    from motet.client.sync import Database

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
