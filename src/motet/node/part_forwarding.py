"""Bytes of parts that clients put here go on to the other replicas while they arrive.

V1  What is forwarded promises nothing (T25): others find it among what has arrived, or fetch the part later.
    Nobody waits for it, and whether it succeeds changes nothing for who puts the part.
V2  Of each file and replica so many pieces wait, and so many files go on at a time. A replica that is too
    slow for that, or does not answer, is left.
V3  What was forwarded is not forwarded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING

from motet.errors import MotetError, NodeError
from motet.ids import TableId
from motet.node.logs import logger
from motet.real.part_files import PartKey

if TYPE_CHECKING:
    from motet.client.part_client import PartClient

pieces_max = 8
"""Pieces of a file that a replica has not taken yet."""

files_max = 16
"""Files that are forwarded at a time, each to one replica."""

piece_seconds_max = 10.0
"""How long whoever puts the file may let a replica wait for its next piece."""

OthersOf = Callable[[TableId, int], list[str]]
"""The native endpoints of the other replicas of a shard."""


class ForwardedFile:
    """A file on its way to one replica; filled in the loop, emptied by a thread."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.is_left = False
        self._pieces: Queue[bytes | None] = Queue(pieces_max)

    def give(self, piece: bytes) -> None:
        """The next piece; V2."""
        try:
            self._pieces.put_nowait(piece)
        except Full:
            self.leave()

    def leave(self) -> None:
        """It does not come to its end; one that has is not changed."""
        self.is_left = True

    def pieces(self, size_bytes: int) -> Iterator[bytes]:
        """In a thread: all of them, as they come; an error breaks the request off."""
        while size_bytes > 0:
            piece = self._next()
            if self.is_left or piece is None:
                raise NodeError("what was to be forwarded did not come to its end")
            size_bytes -= len(piece)
            yield piece

    def _next(self) -> bytes | None:
        try:
            return self._pieces.get(timeout=piece_seconds_max)
        except Empty:
            return None

    def end(self) -> None:
        """No more pieces come: it is left, unless all have."""
        try:
            self._pieces.put_nowait(None)
        except Full:
            self.leave()


class PartForwarding:
    """Of one node, from construction to ``stop``."""

    def __init__(self, others: OthersOf) -> None:
        self._others = others
        self._under_way: dict[ForwardedFile, None] = {}
        self._threads = ThreadPoolExecutor(files_max, "motet-forwards")

    def begin(self, key: PartKey, name: str, size_bytes: int) -> list[ForwardedFile]:
        """Have a file of a part sent on; it is empty where there is nobody, or no room."""
        begun = []
        for endpoint in self._others(key.table, key.shard):
            if len(self._under_way) >= files_max:
                break
            file = ForwardedFile(endpoint)
            self._under_way[file] = None
            begun.append(file)
            self._threads.submit(self._forward, file, key, name, size_bytes)
        return begun

    def stop(self) -> None:
        """Leave what is under way."""
        for file in list(self._under_way):
            file.leave()
            file.end()
        if "_client" in vars(self):
            self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @cached_property
    def _client(self) -> PartClient:
        from motet.client.part_client import PartClient  # a node that is alone never needs it

        return PartClient()

    def _forward(self, file: ForwardedFile, key: PartKey, name: str, size_bytes: int) -> None:
        try:
            pieces = file.pieces(size_bytes)
            self._client.forward(file.endpoint, key, name, pieces, size_bytes)
        except MotetError as error:  # V1
            fields = {"part": str(key), "file": name, "to": file.endpoint, "why": error.what}
            logger.info("part_not_forwarded", extra={"fields": fields})
        finally:
            file.leave()
            self._under_way.pop(file, None)
