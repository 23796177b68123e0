"""The peers of a network: the frames that wait for each, and the connections they can leave over.

Clients are peers too, and share nothing with nodes, so that what is kept for clients is never taken from what
nodes need. It has a budget (:mod:`motet.real.budgets`); ``ClientsView`` hears when there may be room in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from motet.format.frame import Frame
from motet.ids import Address
from motet.limits import client_unsent_bytes_all_max, unfinished_bytes_max
from motet.real.budgets import ClientBudget, Inbox
from motet.real.connection import Connection
from motet.real.hello import Refusal

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
        """One more connection; the preferred ones stand after the others, the newest last."""
        self.connections.insert(len(self.connections) if is_preferred else 0, connection)

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


class ClientsView(Protocol):
    """Whoever decides which requests of clients there is room for."""

    def has_room(self) -> None:
        """Answers may have left."""

    def gone(self, client: Address) -> None:
        """Its connection is lost."""


class Nobody:
    """Everything that comes is taken at once."""

    def has_room(self) -> None:
        pass

    def gone(self, client: Address) -> None:
        pass


class NetworkClients:
    """Those among the peers of a network that are no nodes."""

    def __init__(
        self,
        peers: Mapping[Address, Peer],
        wake: Callable[[], None],
        set_full: Callable[[bool], None],
        view: ClientsView,
    ) -> None:
        self._peers = peers
        self.view = view
        self.inbox = Inbox(wake, set_full)
        self.budget = ClientBudget(
            unsent_bytes_max=client_unsent_bytes_all_max,
            unfinished_bytes_max=unfinished_bytes_max,
            looked=view.has_room,
        )
        #: how many there are
        self.count = 0
        #: answers that have not been flushed
        self.queued_bytes = 0

    def admit(self, peer: Peer, connection: Connection) -> None:
        peer.is_client = True
        self.count += 1
        connection.be_client(self.budget, self.inbox.put)

    def flushed(self, peer: Peer, connection: Connection, size_bytes: int) -> None:
        """What was queued for a client was written: so many bytes."""
        self.queued_bytes -= peer.queued_bytes
        self.budget.wrote(connection, size_bytes)

    def lost(self, peer: Peer) -> None:
        self.count -= 1
        self.queued_bytes -= peer.queued_bytes
        self.view.gone(peer.address)

    def kept_for(self, client: Address) -> tuple[int, int]:
        """Answers that have not left, in bytes: of this client, and of all; see ``measure``."""
        peer = self._peers.get(client)
        kept_bytes = 0
        if peer is not None and peer.connections:
            kept_bytes = peer.queued_bytes + self.budget.unsent_of(peer.connections[-1])
        return kept_bytes, self.unsent_bytes

    @property
    def unsent_bytes(self) -> int:
        return self.queued_bytes + self.budget.unsent_bytes

    def measure(self) -> None:
        """Bring the numbers up to date: answers leave without a word."""
        self.budget.measure()

    def set_parked(self, client: Address, has_parked: bool) -> None:
        """Read from a client or do not, because requests of it wait for room."""
        for connection in self._connections(client):
            connection.set_parked(has_parked)

    def cut_off(self, client: Address, why: Refusal) -> None:
        """Close the connection of a client."""
        for connection in self._connections(client):
            connection.refuse(why)

    def _connections(self, client: Address) -> list[Connection]:
        peer = self._peers.get(client)
        return [] if peer is None else list(peer.connections)


@dataclass(slots=True)
class NetworkCounters:
    """Everything one network has counted since its start."""

    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    #: frames that never left, by why: nobody of that name, no room in the queue, nobody there
    dropped_unknown: int = 0
    dropped_full: int = 0
    dropped_unreachable: int = 0
    #: connections that are open now, in both directions, and all there ever were
    connections: int = 0
    connections_total: int = 0
    dials: int = 0
    dials_failed: int = 0
    #: what is kept for clients now: answers they have not taken, and frames they have not finished
    unsent_bytes: int = 0
    unfinished_bytes: int = 0
    #: how often a full inbox stopped all reading
    pauses: int = 0
    #: connections closed by us, by why
    refused: dict[Refusal, int] = field(default_factory=lambda: dict.fromkeys(Refusal, 0))
    #: the newest of them, for people
    last_refusal: str = ""
