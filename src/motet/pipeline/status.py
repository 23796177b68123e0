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


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """One pipeline."""

    pipeline: str
    #: what its tables reflect; None before the first step
    clock: Clock | None
    #: how far the visible clock is ahead while there is something to do, in milliseconds
    lag_ms: int
    #: changes of all streams that are still to be looked at
    changes_behind: int
    rows: int
    steps: int
    tables: tuple[str, ...]
    published: datetime | None
    #: empty when all is well
    error: str


def pipeline_status(db: Database, name: str | None = None) -> list[PipelineStatus]:
    """All pipelines that have ever published or failed, or the one of this name."""
    if name is None:
        return [_status(db, info) for info in db.writers()]
    info = db.writer(name)
    if info is None:
        raise BadInput(
            f"there is no pipeline {name!r} that has published or failed",
            hint="`motet pipeline status` lists all of them",
        )
    return [_status(db, info)]


def lag(db: Database, streams: tuple[str, ...], done: Clock) -> tuple[int, int]:
    """How far tables are behind: in milliseconds, and in changes of all streams."""
    split = db.split_feed(*streams, after=done)
    lag_ms = max(split.visible.logical - done.logical, 0) if split.changes else 0
    return lag_ms, split.changes


def _status(db: Database, info: WriterInfo) -> PipelineStatus:
    streams = tuple(str(stream.name) for stream in db.streams())
    lag_ms, changes_behind = lag(db, streams, done_through(info.step)) if streams else (0, 0)
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
