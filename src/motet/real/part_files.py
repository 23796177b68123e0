"""The files of parts on the disk of a data node: where they are, and whether they are what was written.

::

    parts/
      .store                        a token that is new each time a node opens the folder
      unfinished~/                  what is being written or removed; emptied at each start
      <table id>/<shard>/<state>/<part id>/
        part.parquet                its rows
        manifest                    what is known of it, with the hash of its rows

A client that reads the same token from the folder of that name on its own machine can read the files there.
A copy of the folder on another machine has an old token, and is not taken for it.

F1  Only checked words become paths: ids of sixteen hex digits, the number of a shard, one of our own names.
F2  Whoever finds the folder of a part finds both files, whole: it got its name when they were durable.
F3  Before its bytes are read or served, a file is compared with the hash in its manifest: once in the life of
    a process, and again when its size, its time of change or its inode is another one.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Self

import msgspec
from blake3 import blake3

from motet.errors import BadInput, BadRecord, DiskReadFailed, ObjectError, ObjectMissing
from motet.format.part_manifest import (
    MANIFEST_FILE,
    PART_FILE,
    PartManifest,
    decode_part_manifest,
)
from motet.ids import PartId, TableId
from motet.limits import MIB, checked_files_max, part_manifest_bytes_max, table_shards_max
from motet.real.durable import make_folder, read_up_to

TOKEN_FILE = ".store"  # noqa: S105
UNFINISHED = "unfinished~"
piece_bytes = MIB
"""So much of a file is in memory at a time."""

_ID = re.compile(r"[0-9a-f]{16}")
_SHARD = re.compile(r"0|[1-9][0-9]{0,4}")
_TOKEN = re.compile(r"[0-9a-f]{32}")
_locks = 64


class PartState(StrEnum):
    """What a replica has promised of a part: the name of the folder that it lies in."""

    STORED = "stored"
    #: held for a publication
    STAGED = "staged"
    #: sent ahead, and not promised
    ARRIVED = "arrived"
    #: put aside, for a person
    DETACHED = "detached"


READ_FROM = (PartState.STORED, PartState.STAGED, PartState.ARRIVED)
"""Where a part is looked for, in this order."""


class PartKey(msgspec.Struct, frozen=True, order=True):
    """A part of a shard of a table; made by ``checked`` or ``parse``, it can become a path (F1)."""

    table: TableId
    shard: int
    part: PartId

    @classmethod
    def checked(cls, table: TableId, shard: int, part: PartId) -> Self:
        """``BadInput`` for words that are none of ours."""
        return cls.parse(table, str(shard), part)

    @classmethod
    def parse(cls, table: str, shard: str, part: str) -> Self:
        """The same from three words of a path."""
        words = f"{table[:80]}/{shard[:80]}/{part[:80]}"
        is_part = _ID.fullmatch(table) and _SHARD.fullmatch(shard) and _ID.fullmatch(part)
        if not is_part or int(shard) >= table_shards_max:
            hint = "<table id>/<shard>/<part id>; ids are 16 hex digits"
            raise BadInput(f"{words!r} is not the key of a part", hint=hint)
        return cls(TableId(table), int(shard), PartId(part))

    def __str__(self) -> str:
        return f"{self.table}/{self.shard}/{self.part}"


def state_folder(root: Path, table: TableId, shard: int, state: PartState) -> Path:
    """Where a replica keeps its parts of a state."""
    return root / table / str(shard) / state


def part_folder(root: Path, key: PartKey, state: PartState) -> Path:
    """Where a part of a state is, or would be."""
    return state_folder(root, key.table, key.shard, state) / key.part


def replicas_in(root: Path) -> Iterator[tuple[TableId, int]]:
    """The replicas that have a folder here."""
    for table in sorted(root.iterdir()):
        if _ID.fullmatch(table.name) and table.is_dir():
            for shard in sorted(table.iterdir()):
                if _SHARD.fullmatch(shard.name):
                    yield TableId(table.name), int(shard.name)


def is_part_id(name: str) -> bool:
    """Whether a folder may be that of a part."""
    return _ID.fullmatch(name) is not None


# The token of the folder


def prepare_parts_folder(folder: Path) -> str:
    """Make the folder, durably, and give it a new token; an ``OSError`` says why not."""
    make_folder(folder)
    token = secrets.token_hex(16)
    draft = folder / f"{TOKEN_FILE}~"
    # No other user may write there, so none needs to believe that it could: such a client uses HTTP.
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, f"{token}\n".encode())
    finally:
        os.close(fd)
    draft.replace(folder / TOKEN_FILE)
    return token


def parts_token(folder: Path) -> str | None:
    """The token of the folder of this name on this machine; None if there is none to be read."""
    try:
        token = (folder / TOKEN_FILE).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return token if _TOKEN.fullmatch(token) else None


# Reading


def read_manifest(folder: Path) -> PartManifest:
    """The manifest in the folder of a part; ``ObjectMissing``, or ``BadRecord`` when it is damaged."""
    path = folder / MANIFEST_FILE
    try:
        with path.open("rb", buffering=0) as file:
            size_bytes = min(os.fstat(file.fileno()).st_size, part_manifest_bytes_max + MIB)
            data = read_up_to(file.fileno(), 0, size_bytes)
    except FileNotFoundError:
        raise ObjectMissing(f"{path} is missing") from None
    except OSError as error:
        raise DiskReadFailed(f"{path}: {error.strerror}") from error
    try:
        return decode_part_manifest(data)
    except BadRecord as error:
        raise BadRecord(f"{path}: {error.what}", hint=error.advice) from None


def hash_of_file(fd: int, size_bytes: int) -> str:
    """BLAKE3 of so many bytes, in hex; an ``OSError`` says why not."""
    hash_ = blake3()
    for start in range(0, size_bytes, piece_bytes):
        hash_.update(read_up_to(fd, start, min(piece_bytes, size_bytes - start)))
    return hash_.hexdigest()


FileFacts = tuple[int, int, int, int]
"""Device, inode, size in bytes, time of the last change in nanoseconds: others, and it is another file."""


def facts_of(status: os.stat_result) -> FileFacts:
    """What tells one content of a file from another; a file that is moved keeps them."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class CheckedParts:
    """What this process has found out about files of parts; for any threads (F3)."""

    def __init__(self, files_max: int = checked_files_max) -> None:
        self._files_max = files_max
        self._lock = threading.Lock()
        #: a file -> the hash that it has, and whether its manifest says so; the last used at the end
        self._found: OrderedDict[FileFacts, tuple[str, bool]] = OrderedDict()
        #: of those who want the same file, one hashes it
        self._hashing = [threading.Lock() for _ in range(_locks)]

    def hash_of(self, status: os.stat_result) -> str | None:
        """The hash of a file that was hashed before, whatever its manifest says."""
        found = self._get(status)
        return None if found is None else found[0]

    def whole_hash_of(self, status: os.stat_result) -> str | None:
        """The same of a file that is what its manifest says."""
        found = self._get(status)
        return found[0] if found is not None and found[1] else None

    def remember(self, status: os.stat_result, hash_: str, *, is_whole: bool = False) -> None:
        """Whoever has written a file knows what it has written."""
        with self._lock:
            self._found[facts := facts_of(status)] = hash_, is_whole
            self._found.move_to_end(facts)
            while len(self._found) > self._files_max:
                self._found.popitem(last=False)

    def check(self, fd: int, path: Path, manifest: PartManifest) -> None:
        """``BadRecord`` when the file that is open is not what was written."""
        status = os.fstat(fd)
        if status.st_size != manifest.size_bytes:
            what = f"it has {status.st_size} bytes, and {manifest.size_bytes} were written"
            raise damaged(path, manifest, what)
        found = self.hash_of(status)
        if found is None:
            with self._hashing[status.st_ino % _locks]:
                found = self.hash_of(status) or self._hash(fd, path, status)
        if found != manifest.hash:
            what = f"its hash is {found}, and {manifest.hash} was written"
            raise damaged(path, manifest, what)
        self.remember(status, found, is_whole=True)

    def _get(self, status: os.stat_result) -> tuple[str, bool] | None:
        with self._lock:
            found = self._found.get(facts := facts_of(status))
            if found is not None:
                self._found.move_to_end(facts)
            return found

    def _hash(self, fd: int, path: Path, status: os.stat_result) -> str:
        try:
            found = hash_of_file(fd, status.st_size)
        except OSError as error:
            raise DiskReadFailed(f"{path}: {error.strerror}") from error
        self.remember(status, found)
        return found


CHECKED_PARTS = CheckedParts()
"""What this process knows."""


def damaged(path: Path, manifest: PartManifest, what: str) -> BadRecord:
    """The error that names the table, the part and the file."""
    return BadRecord(
        f"part {manifest.part_id} of the table with id {manifest.table_id} is damaged: {path}: {what}",
        hint="another replica has it whole; else put a whole copy of this file in its place",
    )


def checked_part(folder: Path) -> PartManifest:
    """The manifest of a part whose file is what was written, both in this folder (F3)."""
    manifest = read_manifest(folder)
    path = folder / PART_FILE
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise ObjectMissing(f"{path} is missing") from None
    except OSError as error:
        raise ObjectError(f"{path}: {error.strerror}") from error
    try:
        CHECKED_PARTS.check(fd, path, manifest)
    finally:
        os.close(fd)
    return manifest


def find_part(root: Path, key: PartKey) -> Path | None:
    """The folder that a part is read from; None when it is in none of them."""
    for state in READ_FROM:
        folder = part_folder(root, key, state)
        if folder.is_dir():
            return folder
    return None
