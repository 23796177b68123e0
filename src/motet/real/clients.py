"""The clients of a network, apart from the nodes: what they say, and what is kept for them.

Clients and nodes share nothing here, so that what clients hold is never taken from what nodes need. What is
kept for clients has a budget (:mod:`motet.real.client_budget`), and ``ClientsView`` hears when there may be
room in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from motet.ids import Address
from motet.limits import client_unsent_bytes_all_max, unfinished_bytes_max
from motet.real.client_budget import ClientBudget
from motet.real.connection import Connection
from motet.real.hello import Refusal
from motet.real.inbox import Inbox
from motet.real.peer import Peer


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
