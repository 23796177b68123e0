"""The checkpoint of a pipeline: the folder in which Spark notes how far it has read.

It may be removed at any time: what is published is known to the database, and Spark then begins after
that (see ``progress``). What may not happen is that Spark's notes are taken for those of something else,
so the folder also has a file of ours, ``motet.json``, that names the database, the pipeline and its streams.
One driver at a time has the folder.

Spark writes ``offsets/<batch>`` before it hands out a batch, and hands the same slice out again after a
crash. Its offsets name the streams: when a pipeline reads other streams than before, Spark's notes are
removed, and it begins anew after what is published.

A slice begins where the batch before ended, the first one where the query was told to begin. That is where
Spark itself looks after a restart, and so do we: the rows of a batch would not tell, for a slice may well
end after its last row.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.onelog.messages import StreamInfo
from motet.errors import BadCheckpoint, BadPipeline, MotetError
from motet.pipeline.progress import Slice
from motet.real.durable import FolderLock, make_folder, sync_file, sync_folder_at

OWNER_FILE = "motet.json"
LOCK_FILE = "lock~"
OFFSETS = "offsets"
#: what Spark puts in front of the offsets in a file of them
OFFSETS_VERSION = "v1"
HEADER_LINES = 2


class Owner(msgspec.Struct, frozen=True):
    """Whose checkpoint a folder is."""

    database: str
    pipeline: str
    streams: tuple[str, ...]


def default_folder(data: Path | None, database: int, pipeline: str) -> Path:
    """Where a checkpoint is unless told otherwise: in the database's folder, else in the user's cache."""
    if data is not None:
        return data / "pipelines" / pipeline / "checkpoint"
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        cache = Path.home() / ".cache"
    return cache / "motet" / "pipelines" / f"{database:016x}" / pipeline / "checkpoint"


class Checkpoint:
    """A folder that is ours from construction to ``close``; ``BadCheckpoint`` if it is somebody else's."""

    def __init__(self, folder: Path, database: int, pipeline: str) -> None:
        self.folder = folder.absolute()
        self._database = f"{database:016x}"
        self._pipeline = pipeline
        try:
            make_folder(self.folder)
            self._lock = FolderLock(self.folder / LOCK_FILE)
        except OSError as error:
            raise BadCheckpoint(
                f"cannot use {folder} as a checkpoint: {error.strerror}",
                hint="name a folder this user can write to, or one that is not there yet",
            ) from None
        try:
            #: the streams of the run before; none for a new folder
            self._known = self._owner()
        except BaseException:
            self._lock.close()
            raise

    def close(self) -> None:
        """Let the next driver in."""
        self._lock.close()

    def remember(self, streams: tuple[StreamInfo, ...], done: Clock) -> None:
        """Write down which streams are read; one that would have been missed so far is refused."""
        names = tuple(str(info.name) for info in streams)
        missed = [
            str(info.name)
            for info in streams
            if self._known is not None
            and info.name not in self._known.streams
            and info.created <= done
        ]
        if missed:
            raise BadPipeline(
                f"{self._pipeline} has published up to {done} without stream {missed[0]}, "
                "whose changes up to there would be missing",
                hint="read it in a pipeline of its own, with tables of their own",
            )
        owner = Owner(self._database, self._pipeline, names)
        if owner != self._known:
            if self._known is not None and set(names) != set(self._known.streams):
                self._forget_offsets()
            self._write(owner)

    def skip_pruned(self, low_watermark: Clock) -> None:
        """Remove Spark's notes if its last batch began where the feed is pruned.

        Spark may plan that batch once more, though it is published: it would ask for changes that are gone.
        """
        names = [each.name for each in self.folder.glob(f"{OFFSETS}/*")]
        batches = [int(name) for name in names if name.isdigit()]
        if not batches or self._offset(max(max(batches) - 1, 0)) >= low_watermark:
            return
        self._forget_offsets()

    def slice_of(self, batch: int, begin: Clock) -> Slice:
        """The slice of a batch that Spark has handed out; ``begin`` is where the query was told to begin."""
        after = begin if batch == 0 else self._offset(batch - 1)
        return Slice(after, self._offset(batch))

    def _offset(self, batch: int) -> Clock:
        from motet.pipeline.feed_reader import parse_offset

        path = self.folder / OFFSETS / str(batch)
        try:
            lines = path.read_text().splitlines()
            if lines[0] != OFFSETS_VERSION or len(lines) != HEADER_LINES + 1:
                raise ValueError(f"{len(lines)} lines of version {lines[0]}")
            offset = parse_offset(json.loads(lines[-1]))
        except (OSError, ValueError, IndexError) as error:
            raise BadCheckpoint(f"cannot read {path}: {error}") from None
        if offset.database != self._database:
            raise BadCheckpoint(f"{path} is of database {offset.database}, not {self._database}")
        return offset.clock

    def _owner(self) -> Owner | None:
        others = [path for path in self.folder.iterdir() if path.name != LOCK_FILE]
        path = self.folder / OWNER_FILE
        if not path.exists():
            if any(not path.name.startswith(OWNER_FILE) for path in others):
                raise BadCheckpoint(f"{self.folder} has files, and no {OWNER_FILE} among them")
            return None
        try:
            owner = msgspec.json.decode(path.read_bytes(), type=Owner)
        except (OSError, msgspec.MsgspecError) as error:
            raise BadCheckpoint(f"cannot read {path}: {error}") from None
        if (owner.database, owner.pipeline) != (self._database, self._pipeline):
            raise BadCheckpoint(
                f"{self.folder} is the checkpoint of pipeline {owner.pipeline} of database "
                f"{owner.database}, not of {self._pipeline} of {self._database}"
            )
        return owner

    def _forget_offsets(self) -> None:
        """Remove Spark's notes: it begins after what is published, as with a new folder.

        If we are killed in between all of it is done again: an owner is written after this.
        """
        for path in self.folder.iterdir():
            if path.name in (LOCK_FILE, OWNER_FILE):
                continue
            try:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            except OSError as error:
                raise BadCheckpoint(
                    f"cannot remove {path}, which is not needed any more: {error.strerror}",
                    hint="remove the folder, or name another one",
                ) from None

    def _write(self, owner: Owner) -> None:
        path = self.folder / OWNER_FILE
        new = self.folder / f"{OWNER_FILE}~"
        try:
            with new.open("wb") as file:
                file.write(msgspec.json.encode(owner))
                file.flush()
                sync_file(file.fileno())
            new.replace(path)
            sync_folder_at(self.folder)
        except OSError as error:
            raise MotetError(
                f"cannot write {path}: {error.strerror}", hint="make room, or use another folder"
            ) from None
        self._known = owner
