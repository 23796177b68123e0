"""A range of a file as the body of an HTTP answer, read in threads while it leaves."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from motet.client.parts import CHECKED
from motet.ids import ObjectKey
from motet.limits import MIB
from motet.node.byte_range import ByteRange
from motet.node.logs import logger
from motet.real.durable import read_up_to

piece_bytes = MIB
"""What is read of a file at a time: no more of it is ever in memory, but once more on its way out."""


class OpenFile:
    """A file that threads read from and that is closed under none of them."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._fd: int | None = os.open(path, os.O_RDONLY)
        self.size_bytes = os.fstat(self._fd).st_size

    def check(self, key: ObjectKey) -> None:
        """``BadRecord`` when it is not what was written."""
        with self._lock:
            assert self._fd is not None, "a file that is closed"
            CHECKED.check_open(self._fd, self._path, key)

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
