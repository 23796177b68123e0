"""An HTTP answer that is a file or a range of it, read in threads; it stays open however it is moved."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from motet.errors import BadInput
from motet.limits import MIB
from motet.node.http import error_answer
from motet.node.logs import logger
from motet.real.durable import read_up_to

_ONE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class ByteRange(msgspec.Struct, frozen=True):
    """From ``start`` up to, not including, ``end``."""

    start: int
    end: int


class NoSuchRange(Exception):
    """The range has nothing of the file in it."""


def parse_range(header: str | None, size_bytes: int) -> ByteRange | None:
    """The one range that is asked for, cut to the file; None when all of it is to be given.

    Anything but one range of bytes is ignored, as the standard allows. ``NoSuchRange`` when the range is
    beyond the file, or ends before it begins.
    """
    match = _ONE.fullmatch(header.replace(" ", "")) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size_bytes - int(last)), size_bytes
    else:
        start, end = int(first), min(size_bytes, int(last) + 1 if last else size_bytes)
    if start >= end:
        raise NoSuchRange
    return ByteRange(start, end)


piece_bytes = MIB
"""What is read of a file at a time: no more of it is ever in memory, but once more on its way out."""


class OpenFile:
    """A file that threads read from and that is closed under none of them."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._fd: int | None = os.open(path, os.O_RDONLY)
        self.size_bytes = os.fstat(self._fd).st_size

    def check(self, check: Callable[[int], None]) -> None:
        """Call it with the descriptor of the file; it raises an error, or not."""
        with self._lock:
            assert self._fd is not None, "a file that is closed"
            check(self._fd)

    def status(self) -> os.stat_result:
        with self._lock:
            assert self._fd is not None, "a file that is closed"
            return os.fstat(self._fd)

    def read(self, start: int, size_bytes: int) -> bytes:
        with self._lock:
            assert self._fd is not None, "a file that is closed"
            return read_up_to(self._fd, start, size_bytes)

    def close(self) -> None:
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
            self._fd = None


class FileAnswer(Response):
    """Closes the file when it is done with it, however that ends."""

    def __init__(
        self, file: OpenFile, part: ByteRange, status: int, headers: dict[str, str]
    ) -> None:
        super().__init__(None, status, headers)
        self.headers["content-length"] = str(part.end - part.start)
        self._file = file
        self._part = part

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            head = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **head})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
            else:
                await self._send_body(Request(scope, receive), send)
        finally:
            await asyncio.shield(asyncio.to_thread(self._file.close))

    async def _send_body(self, request: Request, send: Send) -> None:
        position, end = self._part.start, self._part.end
        while True:
            wanted = min(piece_bytes, end - position)
            piece = await asyncio.to_thread(self._file.read, position, wanted)
            if len(piece) < wanted:
                # An answer without its end is how the other side hears of it.
                logger.error("part_cut_off", extra={"fields": {"path": request.url.path}})
                return
            position += wanted
            await send({"type": "http.response.body", "body": piece, "more_body": position < end})
            if position == end or await request.is_disconnected():
                return


def answer_file(request: Request, file: OpenFile, tag: str, what: str) -> Response:
    """All of a file, or the range that is asked for; ``tag`` is another one for another content."""
    headers = {
        "accept-ranges": "bytes",
        "content-type": "application/octet-stream",
        "etag": f'"{tag}"',
    }
    try:
        part = parse_range(request.headers.get("range"), file.size_bytes)
    except NoSuchRange:
        file.close()
        headers["content-range"] = f"bytes */{file.size_bytes}"
        del headers["content-type"]
        error = BadInput(f"{what} has {file.size_bytes} bytes, and none of them is in that range")
        return error_answer(error, 416, headers)
    if part is None:
        return FileAnswer(file, ByteRange(0, file.size_bytes), 200, headers)
    headers["content-range"] = f"bytes {part.start}-{part.end - 1}/{file.size_bytes}"
    return FileAnswer(file, part, 206, headers)
