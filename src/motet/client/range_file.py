"""A remote file that reads and seeks as if it were here, for readers that want a part of it at a time.

What is read comes in ranges of a megabyte at least, the last few of which are kept: a reader of Parquet
takes the end of the file first, and then small pieces one behind the other. Any thread may read; they take
turns.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from motet.limits import MIB

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

range_bytes = MIB
"""What is fetched at least, if the file has so much."""

ranges_max = 4
"""How many are kept: columns are read in turns."""

FetchRange = Callable[[int, int], bytes]
"""Gives so many bytes (the second) from a place on (the first): all of them, or an error."""


class RangeFile(io.RawIOBase):
    """Reads a file of a known size through ``fetch``."""

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
