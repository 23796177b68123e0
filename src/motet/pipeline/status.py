"""How pipelines fare: what each has published, how far it is behind, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from motet.core.clock.hlc import Clock
from motet.core.tables.messages import WriterInfo
from motet.errors import BadInput
from motet.pipeline.progress import done_through

if TYPE_CHECKING:
    from motet.client.sync import Database


counted_changes_max = 100_000
"""What is counted exactly; an embedded database knows how many more there are."""


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """One pipeline."""

    pipeline: str
    #: what its tables reflect; None before the first step
    clock: Clock | None
    #: how far the visible clock is ahead while there is something to do, in milliseconds
    lag_ms: int | None
    #: changes of all streams that are still to be looked at; both None when the feed is elsewhere
    changes_behind: int | None
    rows: int
    steps: int
    tables: tuple[str, ...]
    published: datetime | None
    #: empty when all is well
    error: str


def pipeline_status(
    db: Database, name: str | None = None, feed: Database | None = None
) -> list[PipelineStatus]:
    """All pipelines that have ever published or failed, or the one of this name.

    ``feed`` is the database whose changes they work in, if it is not the one with their tables.
    """
    if name is None:
        return [_status(db, info, feed) for info in db.writers()]
    info = db.writer(name)
    if info is None:
        raise BadInput(
            f"there is no pipeline {name!r} that has published or failed",
            hint="`motet pipeline status` lists all of them",
        )
    return [_status(db, info, feed)]


def lag(db: Database, streams: tuple[str, ...], done: Clock) -> tuple[int, int]:
    """How far tables are behind: in milliseconds, and in changes of all streams, or of a cluster so many."""
    split = db.split_feed(*streams, after=done, changes_max=counted_changes_max)
    lag_ms = max(split.visible.logical - done.logical, 0) if split.changes else 0
    return lag_ms, split.changes + split.changes_behind


def _status(db: Database, info: WriterInfo, feed: Database | None) -> PipelineStatus:
    source = feed or db
    streams = tuple(str(stream.name) for stream in source.streams())
    lag_ms: int | None = 0
    changes_behind: int | None = 0
    if info.step is not None and info.step.feed != (None if feed is None else feed.database_id):
        lag_ms = changes_behind = None
    elif streams:
        lag_ms, changes_behind = lag(source, streams, done_through(info.step))
    has_published = info.step is not None
    return PipelineStatus(
        str(info.writer),
        info.step.through if info.step is not None else None,
        lag_ms,
        changes_behind,
        info.rows,
        info.steps,
        tuple(str(table) for table in info.tables),
        datetime.fromtimestamp(info.published_ms / 1000, UTC) if has_published else None,
        info.error,
    )
