"""From where the rows of a part are read: a file on this machine, or ranges of one that is elsewhere.

Nothing is believed before it is checked against the manifest. A local file is hashed before its first read in
a process, and again when its size, its time of change or its inode has changed; nothing is remembered of one
that is damaged, so each reader is told. Of a remote file whole pieces are fetched (M1) and each is checked.
"""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from motet.errors import BadBytes, BadRecord, DiskReadFailed, ObjectError, ObjectMissing
from motet.format.checksum import crc32c
from motet.format.part_manifest import PartManifest, PieceTable
from motet.limits import MIB, checked_files_max

State = tuple[int, int, int, str]
"""Size in bytes, time of the last change in nanoseconds, inode, hash: of another one the file is hashed."""

Fetch = Callable[[int, int], bytes]
"""Some bytes of a file: from an offset, so many. It blocks; any thread may call it, one at a time."""

_locks = 64


class CheckedFiles:
    """The part files that this process found to be what was written; for any threads."""

    def __init__(self, files_max: int = checked_files_max) -> None:
        self._files_max = files_max
        self._lock = threading.Lock()
        #: path -> its state when it was hashed, the last used at the end
        self._states: OrderedDict[str, State] = OrderedDict()
        #: of those who want the same file, one hashes it
        self._hashing = [threading.Lock() for _ in range(_locks)]

    def check(self, path: Path, manifest: PartManifest) -> None:
        """``BadRecord`` when the file is not what the manifest says, ``ObjectMissing`` when there is none."""
        try:
            with path.open("rb", buffering=0) as file:
                self._check(file, path, manifest)
        except FileNotFoundError:
            raise ObjectMissing(
                f"part {manifest.part_id} is not there: {path} is missing"
            ) from None
        except OSError as error:
            raise ObjectError(f"{path}: {error.strerror}") from error

    def _check(self, file: io.FileIO, path: Path, manifest: PartManifest) -> None:
        status = os.fstat(file.fileno())
        if status.st_size != manifest.size_bytes:
            what = f"it has {status.st_size} bytes, and {manifest.size_bytes} were written"
            raise damaged(manifest, f"{path}: {what}")
        state = (status.st_size, status.st_mtime_ns, status.st_ino, manifest.hash)
        name = str(path)
        if self._is_known(name, state):
            return
        with self._hashing[hash(name) % _locks]:
            if self._is_known(name, state):
                return
            found = _hash_of(file, path)
            if found != manifest.hash:
                what = f"its hash is {found}, and {manifest.hash} was written"
                raise damaged(manifest, f"{path}: {what}")
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


def _hash_of(file: io.FileIO, path: Path) -> str:
    hash_ = blake3()
    try:
        while data := file.read(MIB):
            hash_.update(data)
    except OSError as error:
        raise DiskReadFailed(f"{path}: {error.strerror}") from error
    return str(hash_.hexdigest())


def damaged(manifest: PartManifest, what: str) -> BadRecord:
    """The error that names the part."""
    return BadRecord(
        f"part {manifest.part_id} of table {manifest.table_id} is damaged: {what}",
        hint="put a whole copy of this file in its place; other tables and other parts can be read",
    )


class LocalPart:
    """A part whose file is at hand."""

    def __init__(
        self, manifest: PartManifest, path: Path, *, checked: CheckedFiles = CHECKED
    ) -> None:
        self.manifest = manifest
        self.path = path
        self._checked = checked

    def checked_path(self) -> Path:
        """Where the file is, once it is known to be what was written."""
        self._checked.check(self.path, self.manifest)
        return self.path

    def open(self) -> pq.ParquetFile:
        """The file, checked."""
        self.checked_path()
        return _opened(self.manifest, str(self.path), memory_map=True)


class PartInMemory:
    """A part whose file is some bytes that somebody has checked, or made."""

    def __init__(self, manifest: PartManifest, data: bytes) -> None:
        self.manifest = manifest
        self._data = data

    def open(self) -> pq.ParquetFile:
        """The file."""
        return _opened(self.manifest, pa.BufferReader(self._data))


class RemotePart:
    """A part whose file is read by ranges; ``fetch`` blocks."""

    def __init__(self, manifest: PartManifest, fetch: Fetch) -> None:
        self.manifest = manifest
        self.fetch = fetch

    def open(self) -> pq.ParquetFile:
        """The file in place: its footer is fetched now, row groups when they are read."""
        file = CheckedRanges(self.manifest, self.fetch)
        # Arrow would guess where the footer begins, and fetch column chunks with it.
        footer = io.BytesIO(b"PAR1" + file.footer())
        try:
            metadata = pq.read_metadata(footer)
        except (pa.ArrowException, OSError) as error:
            raise damaged(self.manifest, f"its footer cannot be read: {error}") from error
        return _opened(self.manifest, cast("BinaryIO", file), metadata=metadata, pre_buffer=True)


PartSource = LocalPart | PartInMemory | RemotePart


def _opened(manifest: PartManifest, source: Any, **how: Any) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(source, **how)
    except FileNotFoundError:
        raise ObjectMissing(f"part {manifest.part_id} is not there any more") from None
    except (pa.ArrowException, OSError) as error:
        raise BadBytes(f"part {manifest.part_id} cannot be read: {error}") from error


class CheckedRanges(io.RawIOBase):
    """A file whose bytes are fetched in whole pieces, each of them checked; what was fetched last is kept."""

    def __init__(self, manifest: PartManifest, fetch: Fetch) -> None:
        super().__init__()
        self._manifest = manifest
        self._fetch = fetch
        self._pieces = PieceTable(manifest)
        self._position = 0
        self._kept = b""
        self._kept_offset = 0
        self._lock = threading.Lock()

    def footer(self) -> bytes:
        """The last piece."""
        piece = self._pieces.footer
        return self._range(piece.offset, piece.length)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence, self.size())
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        """Bytes of the whole file."""
        return self._manifest.size_bytes

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self.size() - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._range(self._position, wanted)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _range(self, offset: int, length: int) -> bytes:
        if not length:
            return b""
        with self._lock:
            end = offset + length
            kept_end = self._kept_offset + len(self._kept)
            if not (self._kept_offset <= offset and end <= kept_end):
                self._kept, self._kept_offset = self._fetched(self._pieces.covering(offset, length))
            start = offset - self._kept_offset
            return self._kept[start : start + length]

    def _fetched(self, numbers: range) -> tuple[bytes, int]:
        """Pieces that follow each other, and where the first one begins."""
        first, last = self._pieces[numbers[0]], self._pieces[numbers[-1]]
        length = last.offset + last.length - first.offset
        data = self._fetch(first.offset, length)
        if len(data) != length:
            what = f"{len(data)} bytes came instead of {length} from byte {first.offset}"
            raise damaged(self._manifest, what)
        for number in numbers:
            piece = self._pieces[number]
            start = piece.offset - first.offset
            if crc32c(data[start : start + piece.length]) != piece.crc32c:
                what = f"{piece.length} bytes from byte {piece.offset} are not what was written"
                raise damaged(self._manifest, what)
        return data, first.offset
