"""Somebody we send to: the frames that wait for him, and the connections they can leave over."""

from __future__ import annotations

from motet.format.frame import Frame
from motet.ids import Address
from motet.real.connection import Connection

HostPort = tuple[str, int]


class Peer:
    """A node or client, connected or not.

    Two nodes that dial each other at the same moment have two connections. Both stay: each side sends
    over the newest one it prefers, and neither has to guess which one the other side has given up.
    """

    __slots__ = ("address", "connections", "dialed_only", "endpoint", "failures", "is_client",
                 "is_dialing", "is_due", "queue", "queued_bytes", "reached_seconds")  # fmt: skip

    def __init__(
        self, address: Address, endpoint: HostPort | None, *, dialed_only: bool = False
    ) -> None:
        self.address = address
        #: frames leave over a connection that we dialed, if there is where to dial
        self.dialed_only = dialed_only
        #: where to dial; None for who can only come to us
        self.endpoint = endpoint
        #: what waits for it is in its connection, and counted there
        self.is_client = False
        #: admitted ones; frames leave over the last
        self.connections: list[Connection] = []
        self.queue: list[Frame] = []
        self.queued_bytes = 0
        #: flushed, but there was no connection that would take it
        self.is_due = False
        self.is_dialing = False
        #: dials in a row that came to nothing
        self.failures = 0
        #: by the loop's clock, when a dial last came to something
        self.reached_seconds = 0.0

    def add(self, connection: Connection, *, is_preferred: bool) -> None:
        """One more connection; the preferred ones stand behind the others, the newest last."""
        self.connections.insert(
            len(self.connections) if is_preferred else 0,
            connection,
        )

    @property
    def usable(self) -> Connection | None:
        """The connection that frames leave over, full or not."""
        if not self.connections:
            return None
        last = self.connections[-1]
        is_allowed = last.dialed is not None or self.endpoint is None or not self.dialed_only
        return last if is_allowed else None

    def route(self) -> Connection | None:
        """The connection to write to now, None when there is none or it is full."""
        usable = self.usable
        if usable is None:
            return None
        return usable if usable.is_writable or self.is_client else None

    def clear(self) -> int:
        """Forget what waits; how many frames that were."""
        count = len(self.queue)
        self.queue = []
        self.queued_bytes = 0
        self.is_due = False
        return count
