"""One connection through a fault proxy: a lane each way, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

from motet.testing.proxy_lane import Lane, ProxyMode

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
