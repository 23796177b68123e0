"""Parts behind the HTTP port of a node: whole files are put and fetched, and read by range in place.

Whatever comes is checked against what is known before: the size from the log, the hash of a whole file from
its name; the node checks a file before it gives any range of it. A connection that breaks while reading is
no error yet: what is missing is asked for again, a few times. A put whose answer was lost is looked up: if
the file is there, it was done.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

import msgspec

from motet.client.http_calls import ConnectionLost, HttpAnswer, HttpCalls, Unreachable
from motet.client.parts import PartsLocator, check_size
from motet.errors import (
    BadBytes,
    BadInput,
    DiskFull,
    MotetError,
    ObjectError,
    OutcomeUnknown,
    error_of,
)
from motet.format.manifest import HASH_BYTES, content_hash, parse_part_key
from motet.ids import ObjectKey
from motet.limits import KIB, MIB

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


range_bytes = MIB
"""What is fetched at least, if the file has so much."""

ranges_max = 4
"""How many are kept: columns are read in turns."""

FetchRange = Callable[[int, int], bytes]
"""Gives so many bytes (the second) from a place on (the first): all of them, or an error."""


class RangeFile(io.RawIOBase):
    """A remote file of a known size that reads and seeks, for readers that want a part of it at a time.

    What is read comes in ranges of a megabyte at least, the last few of which are kept: a reader of Parquet
    takes the end of the file first, and then small pieces one after the other. Any thread may read; they
    take turns.
    """

    def __init__(self, fetch: FetchRange, size_bytes: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._size_bytes = size_bytes
        self._position = 0
        self._lock = threading.RLock()
        #: (where it begins, bytes), the last used first
        self._ranges: list[tuple[int, bytes]] = []

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._lock:
            self._check_open()
            bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}
            if whence not in bases or bases[whence] + offset < 0:
                raise ValueError(f"cannot seek to {offset} from {whence}")
            self._position = bases[whence] + offset
            return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        with self._lock:
            self._check_open()
            left = max(0, self._size_bytes - self._position)
            wanted = left if size is None or size < 0 else min(size, left)
            data = self._bytes_at(self._position, wanted)
            self._position += wanted
            return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._ranges = []
        super().close()

    def _bytes_at(self, start: int, wanted: int) -> bytes:
        if wanted == 0:
            return b""
        for index, (begin, data) in enumerate(self._ranges):
            if begin <= start and start + wanted <= begin + len(data):
                self._ranges.insert(0, self._ranges.pop(index))
                return data[start - begin : start - begin + wanted]
        if wanted >= range_bytes:
            return self._fetch(start, wanted)
        # At the end of the file a range begins earlier: there is what Parquet is read by.
        begin = max(0, min(start, self._size_bytes - range_bytes))
        data = self._fetch(begin, min(range_bytes, self._size_bytes - begin))
        self._ranges = [(begin, data), *self._ranges[: ranges_max - 1]]
        return data[start - begin : start - begin + wanted]

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")


E = TypeVar("E", bound=Exception)

attempts_max = 3
"""How often something is tried when connections break."""

_piece_bytes = MIB
_error_bytes_max = 64 * KIB


class HttpParts:
    """The parts of the node at ``http://host:port``."""

    def __init__(self, base_url: str) -> None:
        self._calls = HttpCalls(base_url)
        #: where fetched files are; made when the first one is
        self._cache: Path | None = None
        #: one fetch of a file at a time
        self._fetching: dict[ObjectKey, asyncio.Lock] = {}

    async def put(self, key: ObjectKey, data: bytes) -> None:
        check_size(key, len(data))
        await asyncio.to_thread(self._put, key, data)

    async def remove(self, key: ObjectKey) -> None:
        parse_part_key(key)
        await asyncio.to_thread(self._remove, key)

    async def path(self, key: ObjectKey, size_bytes: int) -> Path:
        check_size(key, size_bytes)
        async with self._fetching.setdefault(key, asyncio.Lock()):
            if self._cache is None:
                # Not in a thread: of many that come at once, one must do it.
                self._cache = Path(tempfile.mkdtemp(prefix="motet-parts-"))
            target = self._cache / key.replace("/", "-")
            if not target.exists():
                await asyncio.to_thread(self._fetch, key, size_bytes, target)
            return target

    def source(self, key: ObjectKey, size_bytes: int) -> BinaryIO:
        check_size(key, size_bytes)
        return cast("BinaryIO", PartSource(self, key, size_bytes))

    def locator(self) -> PartsLocator:
        return PartsLocator("", "", self._calls.base_url)

    async def close(self) -> None:
        self.close_connections()
        cache, self._cache = self._cache, None
        if cache is not None:
            await asyncio.to_thread(shutil.rmtree, cache, ignore_errors=True)

    def close_connections(self) -> None:
        """Close those that are idle; the others are closed when they are done."""
        self._calls.close()

    @property
    def base_url(self) -> str:
        return self._calls.base_url

    # What blocks -----------------------------------------------------------------------------------

    def read_range(self, key: ObjectKey, size_bytes: int, start: int, wanted: int) -> bytes:
        """So many bytes of a file of this size, from a place on: all of them, or an error."""
        pieces: list[bytes] = []
        self._read_on(key, start, start + wanted, size_bytes, pieces.append)
        return b"".join(pieces)

    def _put(self, key: ObjectKey, data: bytes) -> None:
        lost = ""
        for _ in range(attempts_max):
            try:
                return self._put_once(key, data)
            except ConnectionLost as error:
                lost = str(error)
            except Unreachable as error:
                if not lost:
                    raise self._unreachable(error) from None
                break
            with contextlib.suppress(ConnectionLost, Unreachable, ObjectError):
                if self._has(key, data):
                    return None
        raise OutcomeUnknown(f"put {key} at {self.base_url}: no answer came ({lost})")

    def _remove(self, key: ObjectKey) -> None:
        try:
            with self._calls.ask("DELETE", f"/parts/{key}") as answer:
                if answer.status != 204:
                    raise self._refusal(answer, f"delete {key}", otherwise=ObjectError)
        except Unreachable as error:
            raise self._unreachable(error) from None
        except ConnectionLost as error:
            raise OutcomeUnknown(f"delete {key} at {self.base_url}: {error}") from None

    def _put_once(self, key: ObjectKey, data: bytes) -> None:
        with self._calls.ask("PUT", f"/parts/{key}", body=data) as answer:
            if answer.status not in (200, 201):
                raise self._refusal(answer, f"put {key}", otherwise=ConnectionLost)
            answer.read_all(_error_bytes_max)

    def _has(self, key: ObjectKey, data: bytes) -> bool:
        """Whether the node has exactly this, durably: it syncs before it answers this question."""
        with self._calls.ask("HEAD", f"/parts/{key}") as answer:
            return (
                answer.status == 200
                and answer.header("content-length") == str(len(data))
                and answer.header("etag") == f'"{content_hash(data)}"'
            )

    def _fetch(self, key: ObjectKey, size_bytes: int, target: Path) -> None:
        hash_ = hashlib.blake2b(digest_size=HASH_BYTES)
        unfinished = target.with_name(f"{target.name}~")
        try:
            with unfinished.open("wb") as file:

                def keep(piece: bytes) -> None:
                    hash_.update(piece)
                    file.write(piece)

                self._read_on(key, 0, size_bytes, size_bytes, keep)
            promised = parse_part_key(key).hash
            if promised is not None and hash_.hexdigest() != promised:
                raise self._garbled(key, f"its content has the hash {hash_.hexdigest()}")
            unfinished.replace(target)
        except OSError as error:
            raise ObjectError(f"cannot keep {key} at {target}: {error.strerror}") from None
        finally:
            unfinished.unlink(missing_ok=True)

    def _read_on(
        self, key: ObjectKey, start: int, end: int, size_bytes: int, keep: Callable[[bytes], object]
    ) -> None:
        """Hand over the bytes from start to end; after a broken connection from where it broke."""
        failures = 0
        while start < end:
            try:
                for piece in self._pieces(key, start, end, size_bytes):
                    keep(piece)
                    start += len(piece)
                    failures = 0
            except (ConnectionLost, Unreachable) as error:
                failures += 1
                if failures == attempts_max:
                    raise self._unreachable(error) from None

    def _pieces(self, key: ObjectKey, start: int, end: int, size_bytes: int) -> Iterator[bytes]:
        wanted = {"Range": f"bytes={start}-{end - 1}"}
        with self._calls.ask("GET", f"/parts/{key}", headers=wanted) as answer:
            if answer.status == 416:
                what = f"it has fewer than the {size_bytes} bytes that were written"
                raise self._garbled(key, what)
            if answer.status != 206:
                raise self._refusal(answer, f"get {key}", otherwise=ObjectError)
            if answer.header("content-range") != f"bytes {start}-{end - 1}/{size_bytes}":
                what = f"the node gives {answer.header('content-range')!r} of {size_bytes} bytes"
                raise self._garbled(key, what)
            if answer.left_bytes != end - start:
                raise ObjectError(f"get {key}: {self.base_url} does not answer as a node does")
            while answer.left_bytes:
                yield answer.read(min(_piece_bytes, answer.left_bytes))

    def _refusal(self, answer: HttpAnswer, what: str, *, otherwise: type[E]) -> MotetError | E:
        """The error that the node reported, if it is one about the object; else a plain one."""
        try:
            said = msgspec.json.decode(answer.read_all(_error_bytes_max), type=_Refused).error
            error = error_of(said.code, said.what, said.advice)
        except msgspec.MsgspecError:
            return otherwise(f"{what}: {self.base_url} answered {answer.status}")
        if isinstance(error, BadBytes | BadInput | DiskFull | ObjectError | OutcomeUnknown):
            return error
        return otherwise(f"{what}: {error.what}")

    def _garbled(self, key: ObjectKey, what: str) -> ObjectError:
        # The node has checked its file, so this happened on the way, or it is no node.
        return ObjectError(
            f"{key} does not arrive from {self.base_url} as it was written: {what}",
            hint="read it again; if it stays so, check the network and what listens there",
        )

    def _unreachable(self, error: Exception) -> ObjectError:
        return ObjectError(
            f"the parts at {self.base_url} cannot be reached ({error})",
            hint="check that the database still runs there, then try again",
        )


class PartSource(RangeFile):
    """A remote file in place; pickled, it is opened again where it arrives, at its start."""

    def __init__(
        self, parts: HttpParts, key: ObjectKey, size_bytes: int, *, owns_parts: bool = False
    ) -> None:
        super().__init__(partial(parts.read_range, key, size_bytes), size_bytes)
        self._parts = parts
        self._key = key
        self._owns_parts = owns_parts

    def close(self) -> None:
        if self._owns_parts:
            self._parts.close_connections()
        super().close()

    def __reduce__(self) -> tuple[object, ...]:
        return _open_source, (self._parts.base_url, self._key, self._size_bytes)


def _open_source(base_url: str, key: ObjectKey, size_bytes: int) -> PartSource:
    return PartSource(HttpParts(base_url), key, size_bytes, owns_parts=True)


class _Said(msgspec.Struct):
    code: str
    what: str
    advice: str


class _Refused(msgspec.Struct):
    """A node's answer that is an error."""

    error: _Said
