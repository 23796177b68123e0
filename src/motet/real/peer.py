"""Somebody we send to: the frames that wait for him, and the connections they can leave over."""

from __future__ import annotations

from motet.format.frame import Frame
from motet.ids import Address
from motet.real.connection import Connection

HostPort = tuple[str, int]


class Peer:
    """A node or client, connected or not.

    Two nodes that dial each other at the same moment have two connections. Both stay: each side sends
    over the newer one it knows, and neither has to guess which one the other side has given up.
    """

    __slots__ = ("address", "connections", "endpoint", "failures", "is_client", "is_dialing", "is_due",
                 "queue", "queued_bytes")  # fmt: skip

    def __init__(self, address: Address, endpoint: HostPort | None) -> None:
        self.address = address
        #: where to dial; None for who can only come to us
        self.endpoint = endpoint
        #: what waits for it is in its connection, and counted there
        self.is_client = False
        #: greeted ones, the newest last: frames leave over that one
        self.connections: list[Connection] = []
        self.queue: list[Frame] = []
        self.queued_bytes = 0
        #: flushed, but there was no connection that would take it
        self.is_due = False
        self.is_dialing = False
        #: dials in a row that came to nothing
        self.failures = 0

    def route(self) -> Connection | None:
        """The connection to write to now, None when there is none or it is full."""
        if not self.connections:
            return None
        newest = self.connections[-1]
        return newest if newest.is_writable or self.is_client else None

    def clear(self) -> int:
        """Forget what waits; how many frames that were."""
        count = len(self.queue)
        self.queue = []
        self.queued_bytes = 0
        self.is_due = False
        return count
