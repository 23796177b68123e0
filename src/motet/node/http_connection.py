"""One HTTP connection, as uvicorn has it, with an end to everybody's patience.

L1  No more than so many connections; one more is closed at once.
L2  A request's head is there within ``head_seconds_max`` of the connection's beginning, or of the first byte
    of the head on a connection that is used again. In between, uvicorn closes who is idle.
L3  A client that takes nothing of its answer, or sends nothing of its body, is cut off after
    ``stalled_seconds_max``.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

head_seconds_max = 10.0
stalled_seconds_max = 30.0


class HttpConnections:
    """How many there may be, and how many were cut off, by why."""

    def __init__(self, connections_max: int) -> None:
        self.connections_max = connections_max
        self.count = 0
        self.refusals: dict[str, int] = {}

    def protocol(self) -> type[H11Protocol]:
        """The class of connections that count here."""

        class Counted(HttpConnection):
            counts = self

        return Counted


class HttpConnection(H11Protocol):
    """From the accepted socket to its end."""

    counts: HttpConnections

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self.counts.count += 1
        if self.counts.count > self.counts.connections_max:
            self._cut_off("too_many")  # L1
        else:
            self._expect(head_seconds_max, "silent")

    def connection_lost(self, exc: Exception | None) -> None:
        self.counts.count -= 1
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.IDLE:
            if self._deadline is None:  # the beginning of the next head
                self._expect(head_seconds_max, "silent")
        elif state is h11.SEND_BODY:
            self._expect(stalled_seconds_max, "stalled")
        elif not self._is_paused:
            self._expect_nothing()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_paused = True
        self._expect(stalled_seconds_max, "stalled")

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_paused = False
        self._expect_nothing()

    def on_response_complete(self) -> None:
        if not self._is_paused:
            self._expect_nothing()
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._expect(head_seconds_max, "silent")  # the next head has begun already

    def _expect(self, seconds: float, otherwise: str) -> None:
        self._expect_nothing()
        self._deadline = self.loop.call_later(seconds, self._cut_off, otherwise)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut_off(self, why: str) -> None:
        if why == "stalled" and self.flow.read_paused and not self._is_paused:
            self._expect(stalled_seconds_max, why)  # we are the ones who keep it waiting
            return
        self.counts.refusals[why] = self.counts.refusals.get(why, 0) + 1
        self.transport.abort()
