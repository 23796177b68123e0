"""Two ends of a connection within one process: what is written to one is received at the other.

It is for protocols that are written for sockets and whose two sides happen to live in one event loop. An end
behaves as a socket's transport does:

P1  What is written arrives in order, in a later turn of the event loop, and what gathers in between as one.
P2  Nothing arrives at a side that has stopped reading; whoever writes too much to it is told to pause.
P3  Closing lets what was written arrive first; aborting does not. Both sides are told that it is over, once.
"""

from __future__ import annotations

import asyncio
from typing import Any

high_bytes_default = 64 * 1024


class PipeEnd(asyncio.Transport):
    """One side; made by :func:`connect_in_memory`."""

    def __init__(self, protocol: asyncio.Protocol, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._protocol = protocol
        self._loop = loop
        self._other: PipeEnd
        #: written at the other end, and not received here
        self._waiting = bytearray()
        self._is_reading = True
        #: a turn is set to hand over what waits
        self._is_due = False
        #: no more can be written here
        self._is_closing = False
        self._is_lost = False
        self._high_bytes = high_bytes_default
        self._has_paused = False

    # Writing

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        other = self._other
        if self._is_closing or other._is_closing:
            return
        other._waiting += data
        other._wake()
        if len(other._waiting) > self._high_bytes and not self._has_paused:
            self._has_paused = True
            self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """``low`` is nothing: whoever was told to pause goes on when all has arrived."""
        del low
        self._high_bytes = high_bytes_default if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self._other._waiting)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._waiting.clear()  # whoever closes does not listen any more
            self._lose()
            self._other._wake()

    def abort(self) -> None:
        self._other._waiting.clear()
        self.close()

    def is_closing(self) -> bool:
        return self._is_closing

    # Reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._wake()

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def _wake(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._is_due = False
        if self._is_closing or not self._is_reading:
            return
        if self._waiting:
            data, self._waiting = bytes(self._waiting), bytearray()
            self._protocol.data_received(data)
            self._other._go_on_writing()
        if self._other._is_closing and not self._waiting:
            self.close()  # P3: the other side has, and all of it has arrived

    def _go_on_writing(self) -> None:
        if self._has_paused and not self._other._waiting and not self._is_closing:
            self._has_paused = False
            self._protocol.resume_writing()

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._loop.call_soon(self._protocol.connection_lost, None)


def connect_in_memory(one: asyncio.Protocol, other: asyncio.Protocol) -> tuple[PipeEnd, PipeEnd]:
    """Connect two protocols with each other."""
    loop = asyncio.get_running_loop()
    ends = PipeEnd(one, loop), PipeEnd(other, loop)
    ends[0]._other, ends[1]._other = ends[1], ends[0]
    one.connection_made(ends[0])
    other.connection_made(ends[1])
    return ends
