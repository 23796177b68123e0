"""Whether the file of a part is still what was written, checked before it is read.

The manifest of a part has the hash of its file; the name of the file and the record that published it have
it, too. A file is hashed before its first read in a process, and again when its size, its time of change or
its inode has changed. Nothing is remembered of a file that is damaged: each reader is told.

Whoever opens the file of a part for reading goes through here: the store in a folder, Spark's own reader,
and the node that serves ranges over HTTP. A file that came over HTTP as a whole is hashed on arrival, too.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from motet.errors import BadBytes, BadRecord, DiskReadFailed, ObjectError, ObjectMissing
from motet.format.manifest import (
    HASH_BYTES,
    MANIFEST_FILE,
    decode_manifest,
    manifest_bytes_max,
    parse_part_key,
)
from motet.ids import ObjectKey
from motet.limits import MIB, checked_files_max
from motet.real.durable import read_up_to

_piece_bytes = MIB
_locks = 64

State = tuple[int, int, int]
"""Size in bytes, time of the last change in nanoseconds, inode: another one, and the file is hashed again."""


class CheckedFiles:
    """The files that this process found to be what was written; for any threads."""

    def __init__(self, files_max: int = checked_files_max) -> None:
        self._files_max = files_max
        self._lock = threading.Lock()
        #: path -> its state when it was hashed, the last used at the end
        self._states: OrderedDict[str, State] = OrderedDict()
        #: of those who want the same file, one hashes it
        self._hashing = [threading.Lock() for _ in range(_locks)]

    def check(self, path: Path, key: ObjectKey, size_bytes: int | None = None) -> None:
        """``BadRecord`` when the file is not what was written; its size is checked where it is known."""
        try:
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise ObjectMissing(f"there is no {key}: {path} is missing") from None
        except OSError as error:
            raise ObjectError(f"{path}: {error.strerror}") from error
        try:
            self.check_open(fd, path, key, size_bytes)
        finally:
            os.close(fd)

    def check_open(
        self, fd: int, path: Path, key: ObjectKey, size_bytes: int | None = None
    ) -> None:
        """The same of a file that is open already."""
        promised = parse_part_key(key).hash
        status = os.fstat(fd)
        if size_bytes is not None and status.st_size != size_bytes:
            what = f"it has {status.st_size} bytes, and {size_bytes} were written"
            raise damaged(key, path, what)
        if promised is None:
            return  # a manifest, which has checksums of its own
        state = (status.st_size, status.st_mtime_ns, status.st_ino)
        name = str(path)
        if self._is_known(name, state):
            return
        with self._hashing[hash(name) % _locks]:
            if self._is_known(name, state):
                return
            found = _hash_of(fd, status.st_size, path)
            if found != promised:
                raise damaged(key, path, f"its hash is {found}, and {promised} was written")
            self._remember(name, state)

    def _is_known(self, name: str, state: State) -> bool:
        with self._lock:
            if self._states.get(name) != state:
                return False
            self._states.move_to_end(name)
            return True

    def _remember(self, name: str, state: State) -> None:
        with self._lock:
            self._states[name] = state
            self._states.move_to_end(name)
            while len(self._states) > self._files_max:
                self._states.popitem(last=False)


CHECKED = CheckedFiles()
"""Those of this process."""


def damaged(key: ObjectKey, path: Path, what: str) -> BadRecord:
    """The error that names the table, the part and the file."""
    named = parse_part_key(key)
    table = _table_name(path.parent)
    whose = f"table {table}" if table is not None else f"the table with id {named.table_id}"
    return BadRecord(
        f"part {named.part_id} of {whose} is damaged: {path}: {what}",
        hint="put a whole copy of this file in its place; other tables and other parts can be read",
    )


def _table_name(folder: Path) -> str | None:
    """The table as the manifest beside a file has it; None if that cannot be read either."""
    with suppress(OSError, BadBytes), (folder / MANIFEST_FILE).open("rb") as file:
        return decode_manifest(file.read(manifest_bytes_max)).table
    return None


def _hash_of(fd: int, size_bytes: int, path: Path) -> str:
    hash_ = hashlib.blake2b(digest_size=HASH_BYTES)
    try:
        for start in range(0, size_bytes, _piece_bytes):
            hash_.update(read_up_to(fd, start, min(_piece_bytes, size_bytes - start)))
    except OSError as error:
        raise DiskReadFailed(f"{path}: {error.strerror}") from error
    return hash_.hexdigest()
