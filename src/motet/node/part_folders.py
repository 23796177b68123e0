"""The parts of a node's table replicas as folders: written whole, moved between states, and looked at.

Rules:

P1  *Whole or not at all.* A part is written in a folder of its own below ``unfinished~``; both files are
    synced, then the folder; then it gets its name, and what holds the name is synced. Whoever returns has
    done that.
P2  What is removed leaves its place first, by a rename into ``unfinished~``.
P3  Stored, staged and detached parts survive a restart. Those that have arrived, and whatever is unfinished,
    go at the start: nobody was promised anything of them (T25).
P4  Nothing is overwritten. What is damaged and has to make room, is put aside.
P5  A look sees each part in one state: nothing is moved while a replica is looked at. It syncs the names that
    it finds: those that a killed process has left may not be durable yet.

Calls block, and come from any threads. Those about one part come one after the other
(:mod:`motet.node.table_work`), but for uploads, which may only find that somebody was there before.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from motet.core.mergetree.entries import PartHeader, header_of
from motet.core.mergetree.messages import PartBytes
from motet.core.mergetree.work import Looked
from motet.errors import BadInput, MotetError, NodeError, ObjectError, ObjectExists, ObjectMissing
from motet.format.part_manifest import MANIFEST_FILE, PART_FILE
from motet.ids import PartId, TableId
from motet.node.logs import logger
from motet.node.part_draft import PartDraft, check_manifest, is_of
from motet.real.durable import make_folder, sync_folder_at
from motet.real.objects import put_failed
from motet.real.part_files import (
    CHECKED_PARTS,
    UNFINISHED,
    PartKey,
    PartState,
    checked_part,
    is_part_id,
    part_folder,
    read_manifest,
    replicas_in,
    state_folder,
)

WHY = ".why"
"""Beside a part that was put aside: a line that says why."""

_there_already = frozenset({errno.ENOTEMPTY, errno.EEXIST})
_locks = 64


class PartFolders:
    """All parts of a node, below one folder that is its own."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._unfinished = self.root / UNFINISHED
        self._numbers = count()
        #: held while a part of a replica is moved, and while the replica is looked at (P5)
        self._moving = [threading.Lock() for _ in range(_locks)]
        try:
            make_folder(self._unfinished)
            for table, shard in replicas_in(self.root):  # P3
                arrived = state_folder(self.root, table, shard, PartState.ARRIVED)
                with suppress(FileNotFoundError):
                    arrived.replace(self._fresh_place())
            for left_over in self._unfinished.iterdir():
                shutil.rmtree(left_over)
        except OSError as error:
            raise NodeError(f"cannot use {root} for parts: {error.strerror}") from error

    # Looking

    def look(self, table: TableId, shard: int) -> Looked:
        """What a replica has. Stored parts are named and not read: they are many, and each was synced."""
        found: dict[PartState, list[PartHeader]] = {}
        named: list[PartId] = []
        with _explained(f"look at {table}/{shard}"), self._lock(table, shard):
            for state in PartState:
                folder = state_folder(self.root, table, shard, state)
                headers = found[state] = []
                if not folder.is_dir():
                    continue
                sync_folder_at(folder)
                if state is PartState.STORED:
                    named = _stored_in(folder)
                    continue
                for each in _parts_in(folder):
                    header = _header_in(each, table, shard)
                    if header is not None:
                        headers.append(header)
        return Looked(
            (),
            (*found[PartState.ARRIVED], *found[PartState.DETACHED]),
            tuple(found[PartState.STAGED]),
            named=tuple(named),
        )

    def look_at(self, table: TableId, shard: int, parts: tuple[PartId, ...]) -> Looked:
        """Some stored parts: manifests can be read, and files are as long as they say, or it is broken. Of
        what is not there nothing is said."""
        stored: list[PartHeader] = []
        broken: list[PartId] = []
        for part in parts:
            folder = part_folder(self.root, PartKey(table, shard, part), PartState.STORED)
            with _explained(f"look at {table}/{shard}/{part}"), self._lock(table, shard):
                header = _header_in(folder, table, shard)
                if header is not None:
                    stored.append(header)
                elif folder.exists():
                    broken.append(part)
        return Looked(tuple(stored), (), broken=tuple(broken))

    def has(self, key: PartKey, header: PartHeader, *states: PartState) -> bool:
        """Whether this very part is in one of these states, checked to the last byte."""
        return any(_is_whole(part_folder(self.root, key, state), key, header) for state in states)

    # Writing

    def begin(self) -> PartDraft:
        """A part that is yet to be written; whoever asked for it removes it in any case."""
        return PartDraft(self._fresh_place())

    def write(self, key: PartKey, header: PartHeader, block: PartBytes, state: PartState) -> None:
        """A part from bytes that are at hand."""
        if block.kind != "parquet":
            raise BadInput(f"bytes of the kind {block.kind!r} are no finished part")
        self.receive(key, header, block.manifest, lambda draft: draft.write(block.data), state)

    def receive(
        self,
        key: PartKey,
        header: PartHeader,
        manifest: bytes,
        fill: Callable[[PartDraft], None],
        state: PartState,
    ) -> None:
        """A part whose file is written by ``fill``; it gets its name if it is what was promised."""
        with _explained(f"write part {key}"):
            draft = self.begin()
            try:
                check_manifest(key, header, manifest)
                fill(draft)
                if (draft.hash, draft.size_bytes) != (header.hash, header.size_bytes):
                    what = f"{draft.size_bytes} bytes with the hash {draft.hash} are not part {key}"
                    raise BadInput(what, hint="send it again: it was changed on the way")
                draft.end_file()
                draft.write_manifest(manifest)
                self.finish(draft, key, state)
            finally:
                draft.remove()

    def finish(self, draft: PartDraft, key: PartKey, state: PartState) -> None:
        """Both files of a draft are durable: it becomes a part. ``ObjectExists`` when one is there (P4)."""
        sync_folder_at(draft.folder)
        self._place(draft.folder, key, state)

    # Moving

    def store(self, key: PartKey, header: PartHeader) -> None:
        """Store a part from among those that have arrived, are staged, or were put aside."""
        self._bring(key, header, PartState.STORED, PartState.ARRIVED, PartState.STAGED)

    def stage(self, key: PartKey, header: PartHeader) -> None:
        """Stage a part that is here in any state; one that is stored is so as well."""
        stored = part_folder(self.root, key, PartState.STORED)
        if not _is_whole(stored, key, header):
            self._bring(key, header, PartState.STAGED, PartState.ARRIVED)
            return
        with _explained(f"stage part {key}"):
            draft = self.begin()
            try:
                draft.make_folder()
                for file in (PART_FILE, MANIFEST_FILE):
                    os.link(stored / file, draft.folder / file)
                self.finish(draft, key, PartState.STAGED)
            finally:
                draft.remove()

    def remove(self, key: PartKey, state: PartState) -> None:
        """Remove a part; one that is not there is fine."""
        with _explained(f"remove part {key}"):
            self._discard(part_folder(self.root, key, state), key.table, key.shard)

    def detach(self, key: PartKey, why: str) -> None:
        """Put a stored part aside; one that is not there is fine."""
        with _explained(f"detach part {key}"):
            self._put_aside(part_folder(self.root, key, PartState.STORED), key, why)

    def clear(self, table: TableId, shard: int) -> None:
        """Remove all that a replica has, detached parts too."""
        folder = state_folder(self.root, table, shard, PartState.STORED).parent
        with _explained(f"remove {table}/{shard}"):
            self._discard(folder, table, shard)
            with suppress(OSError):
                folder.parent.rmdir()  # unless it has another shard

    # How it is done

    def _bring(
        self, key: PartKey, header: PartHeader, state: PartState, *sources: PartState
    ) -> None:
        """Move the first that is whole into a state."""
        with _explained(f"move part {key}"):
            for folder in self._copies(key, sources):
                if _is_whole(folder, key, header):
                    self._place(folder, key, state)
                    folder.with_name(folder.name + WHY).unlink(missing_ok=True)
                    return
        raise ObjectMissing(f"no bytes of part {key} with its hash are here")

    def _copies(self, key: PartKey, states: tuple[PartState, ...]) -> Iterator[Path]:
        for state in states:
            yield part_folder(self.root, key, state)
        detached = part_folder(self.root, key, PartState.DETACHED)
        with suppress(FileNotFoundError):
            for folder in sorted(detached.parent.iterdir()):
                if folder.name.partition(".")[0] == key.part and folder.is_dir():
                    yield folder

    def _place(self, source: Path, key: PartKey, state: PartState) -> None:
        """Give a folder its name, durably. A damaged part that has it is put aside (P4)."""
        target = part_folder(self.root, key, state)
        make_folder(target.parent)
        if target.exists():
            why = _why_damaged(target)
            if why is None:
                raise ObjectExists(f"part {key} is {state} already")
            self._put_aside(target, key, why)
        self._move(source, target, key.table, key.shard)
        try:
            sync_folder_at(target.parent)
        except OSError:
            self._move(target, source, key.table, key.shard)  # nobody may rely on this name
            raise

    def _put_aside(self, folder: Path, key: PartKey, why: str) -> None:
        if not folder.exists():
            return
        detached = part_folder(self.root, key, PartState.DETACHED)
        make_folder(detached.parent)
        names = (detached, *(detached.with_name(f"{key.part}.{n}") for n in range(1, 1 << 16)))
        target = next(name for name in names if not name.exists())
        note = target.with_name(target.name + WHY)
        with suppress(OSError):  # a full disk is no reason to keep it where it is
            note.write_text(f"{why}\n", encoding="utf-8")
        self._move(folder, target, key.table, key.shard)
        sync_folder_at(target.parent)
        sync_folder_at(folder.parent)
        logger.warning("part_detached", extra={"fields": {"part": str(key), "why": why}})

    def _discard(self, folder: Path, table: TableId, shard: int) -> None:
        """P2."""
        if not folder.exists():
            return
        place = self._fresh_place()
        self._move(folder, place, table, shard)
        sync_folder_at(folder.parent)
        shutil.rmtree(place, ignore_errors=True)  # what is left goes at the next start

    def _move(self, source: Path, target: Path, table: TableId, shard: int) -> None:
        with self._lock(table, shard):
            try:
                source.replace(target)
            except OSError as error:
                if error.errno in _there_already:
                    raise ObjectExists(f"{target} is there already") from None
                raise

    def _lock(self, table: TableId, shard: int) -> threading.Lock:
        return self._moving[hash((table, shard)) % _locks]

    def _fresh_place(self) -> Path:
        return self._unfinished / str(next(self._numbers))


def _stored_in(folder: Path) -> list[PartId]:
    """The names of all folders of parts, sorted."""
    with os.scandir(folder) as found:
        return sorted(
            PartId(each.name) for each in found if is_part_id(each.name) and each.is_dir()
        )


def _parts_in(folder: Path) -> Iterator[Path]:
    """The folders of parts, by name; of one that was put aside there may be several."""
    for name in sorted(each.name for each in folder.iterdir()):
        part, _, copy = name.partition(".")
        if is_part_id(part) and (not copy or copy.isdecimal()):
            yield folder / name


def _header_in(folder: Path, table: TableId, shard: int) -> PartHeader | None:
    """Of the part in this folder; None if it cannot be whole. Its file is not hashed for it."""
    try:
        manifest = read_manifest(folder)
        status = (folder / PART_FILE).stat()
    except (MotetError, OSError) as error:
        why = str(error)
    else:
        key = PartKey(table, shard, PartId(folder.name.partition(".")[0]))
        hash_ = CHECKED_PARTS.hash_of(status)
        is_as_long = status.st_size == manifest.size_bytes
        if is_of(manifest, key) and is_as_long and hash_ in (None, manifest.hash):
            return header_of(manifest)
        why = "its file is not what its manifest says"
    fields = {"part": f"{table}/{shard}/{folder.name}", "state": folder.parent.name, "why": why}
    logger.warning("part_damaged", extra={"fields": fields})
    return None


def _is_whole(folder: Path, key: PartKey, header: PartHeader) -> bool:
    """Whether this folder has this very part, checked to the last byte."""
    try:
        manifest = checked_part(folder)
    except MotetError:
        return False
    return is_of(manifest, key) and header_of(manifest) == header


def _why_damaged(folder: Path) -> str | None:
    """Why it is not what was written; None if it is."""
    try:
        checked_part(folder)
    except MotetError as error:
        return error.what
    return None


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """A full disk is ``DiskFull``, any other trouble with it an ``ObjectError``."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise ObjectError(f"{what}: {error.filename} is missing") from error
        raise put_failed(what, error) from error
