"""One direction of one connection through a fault proxy: reads here, writes there, spoils in between.

A stream of bytes never has a hole in it: what TCP cannot deliver, it holds back, and then the connection
breaks. So a connection that lost bytes cannot be fixed; it is *holed*, and reset once its bytes would
pass again.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Literal, Protocol

import msgspec

Direction = Literal["to_target", "to_client"]

CHUNK_BYTES = 64 * 1024
#: chunks that wait for their time; a slow lane then stops reading, as a full pipe does
WAITING_CHUNKS_MAX = 64
SLOW_PIECES_PER_SECOND = 20


class ProxyMode(msgspec.Struct, frozen=True):
    """What a fault proxy does to what passes through it; the default is nothing."""

    #: whether bytes pass in this direction; if not, they are swallowed, and so is the end of the stream
    to_target: bool = True
    to_client: bool = True
    #: every piece arrives so much later, and up to the jitter later than that
    delay_ms: int = 0
    jitter_ms: int = 0
    #: per connection and direction; None: as fast as it goes
    bytes_per_second: int | None = None
    #: whether new connections are taken; if not, they are reset at once
    accepts: bool = True

    def passes(self, direction: Direction) -> bool:
        return self.to_target if direction == "to_target" else self.to_client


class LaneOwner(Protocol):
    """What a lane needs of its proxy."""

    mode: ProxyMode

    def delay_s(self) -> float:
        """How long the next piece should be held back."""

    async def pause(self, seconds: float) -> None:
        """Wait, but not beyond the next change of mode."""

    def count(self, direction: Direction, size_bytes: int, *, passed: bool) -> None:
        """Note that bytes have passed or were swallowed."""

    def count_dropped_end(self) -> None:
        """Note that the end of a stream was swallowed."""


class Lane:
    """Moves bytes from a source to a sink."""

    def __init__(
        self,
        owner: LaneOwner,
        direction: Direction,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
    ) -> None:
        self.direction = direction
        #: something was swallowed: nothing more may pass
        self.holed = False
        self._owner = owner
        self._source = source
        self._sink = sink
        #: (when to let it go, bytes), b"" for the end of the stream, None for a broken one
        self._waiting: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue(WAITING_CHUNKS_MAX)

    async def read(self) -> None:
        """Take in what the source sends until it ends or breaks."""
        loop = asyncio.get_running_loop()
        chunk: bytes | None = b"-"
        while chunk:
            try:
                chunk = await self._source.read(CHUNK_BYTES)
            except OSError:
                chunk = None
            await self._waiting.put((loop.time() + self._owner.delay_s(), chunk))

    async def write(self) -> None:
        """Hand over what has been read, to the end of the stream; an ``OSError`` if the source broke."""
        loop = asyncio.get_running_loop()
        while True:
            due, chunk = await self._waiting.get()
            await self._owner.pause(due - loop.time())
            if not self._owner.mode.passes(self.direction):
                await self._swallow(chunk)
            elif chunk:
                await self._pass(chunk)
            elif chunk is None:
                raise ConnectionResetError("the source is gone")
            else:
                with contextlib.suppress(OSError):
                    self._sink.write_eof()
                return

    async def _pass(self, chunk: bytes) -> None:
        while chunk and self._owner.mode.passes(self.direction):
            rate = self._owner.mode.bytes_per_second
            size = len(chunk) if rate is None else max(1, rate // SLOW_PIECES_PER_SECOND)
            piece, chunk = chunk[:size], chunk[size:]
            with contextlib.suppress(OSError):  # that the sink is gone is noticed by the other lane
                self._sink.write(piece)
                await self._sink.drain()
                self._owner.count(self.direction, len(piece), passed=True)
            if rate is not None:
                await self._owner.pause(len(piece) / rate)
        if chunk:
            await self._swallow(chunk)

    async def _swallow(self, chunk: bytes | None) -> None:
        self.holed = True
        if chunk:
            self._owner.count(self.direction, len(chunk), passed=False)
        else:
            self._owner.count_dropped_end()
            await asyncio.Event().wait()  # half open, until the proxy resets the connection


# One connection through a fault proxy: a lane each way, and how it ends.

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ProxyConnection:
    """A client, the target, and a lane each way."""

    def __init__(self, writers: tuple[asyncio.StreamWriter, ...], lanes: tuple[Lane, ...]) -> None:
        self._writers = writers
        self._lanes = lanes
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Until both streams have ended, one of them breaks, or the connection is cut."""
        writes = [asyncio.create_task(lane.write()) for lane in self._lanes]
        reads = [asyncio.create_task(lane.read()) for lane in self._lanes]
        self._tasks = [*writes, *reads]
        try:
            await asyncio.wait(writes, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            if not all(_ended_well(task) for task in writes):
                self.reset()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def reset(self) -> None:
        """Break off both sides."""
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            reset(writer)

    def is_past_mending(self, mode: ProxyMode) -> bool:
        """Whether bytes would pass again where some are missing."""
        return any(lane.holed and mode.passes(lane.direction) for lane in self._lanes)


def _ended_well(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset instead of a polite end, and forget what is unsent."""
    with contextlib.suppress(OSError):
        handle = writer.get_extra_info("socket")
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()


async def close(writer: asyncio.StreamWriter) -> None:
    """Close politely, or see to the end of what was reset."""
    try:
        writer.close()
        await writer.wait_closed()
    except OSError:
        pass  # it was reset, by us or by the other side
    finally:
        writer.transport.abort()
