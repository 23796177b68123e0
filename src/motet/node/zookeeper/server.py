"""The server for ZooKeeper clients: connections by their addresses, and the front end's port to them.

It knows nothing of sessions or nodes of the tree: it hands messages to the machine, has what the machine
says written, one write per connection and turn, and answers the four-letter words from what it is told of the
node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from motet.core.keeper.messages import (
    CONNECTION_PREFIX,
    FromConnection,
    ToConnection,
    is_connection,
)
from motet.core.machine import Message
from motet.format.zookeeper.four_letter import (
    ConnectionFacts,
    ServerFacts,
    Traffic,
    answer_word,
)
from motet.ids import Address
from motet.limits import (
    keeper_asked_bytes_all_max,
    keeper_unsent_bytes_all_max,
    unfinished_bytes_max,
    zookeeper_connections_max,
)
from motet.node.logs import cannot_listen
from motet.node.zookeeper.connection import ZooKeeperConnection
from motet.ports import Time
from motet.real.admission import Acceptor, listen
from motet.real.budgets import ClientBudget
from motet.real.in_process import connect_in_memory

stop_seconds_max = 2.0
_look_every_seconds = 0.01

Tell = Callable[[Address, Message], None]
"""Gives the machine a message from a connection, and has it looked at soon."""


class ZooKeeperServer:
    """Serves from ``attach`` to ``stop``, over sockets from ``listen`` on; the machine's ``LocalPort``."""

    def __init__(
        self,
        time: Time,
        *,
        connections_max: int = zookeeper_connections_max,
        accept_failed: Callable[[OSError], None] = lambda _error: None,
        requests_max: int = 1_000,
    ) -> None:
        self._time = time
        self.budget = ClientBudget(
            unsent_bytes_max=keeper_unsent_bytes_all_max,
            unfinished_bytes_max=unfinished_bytes_max,
        )
        self._connections_max = connections_max
        self.requests_max = requests_max
        self._connections: dict[Address, ZooKeeperConnection] = {}
        self._unflushed: list[ZooKeeperConnection] = []
        self._acceptor: Acceptor | None = None
        self._accept_failed = accept_failed
        self._opened = 0
        #: connections that were cut off, by why
        self.refusals: dict[str, int] = {}
        self.received = 0
        self.sent = 0
        #: requests that wait for their answers
        self.asked_bytes = 0
        #: connections that are not read from because there are too many of those (the values mean nothing)
        self._held: dict[ZooKeeperConnection, None] = {}

    def attach(self, tell: Tell, facts: Callable[[], ServerFacts]) -> None:
        """``tell`` gets what clients say, ``facts`` says how the node is."""
        self._tell, self._facts = tell, facts

    async def listen(self, host: str, port: int) -> None:
        """Serve whoever connects there."""
        try:
            listening = listen(host, port)
        except OSError as error:
            raise cannot_listen("ZooKeeper clients", host, port, error) from None
        self._acceptor = Acceptor(listening, self._accept, self._accept_failed)
        self._acceptor.start()

    async def connect(
        self, make: Callable[[], asyncio.Protocol], _host: str, _port: int
    ) -> tuple[object, object]:
        """Connect a client in this process, without a socket; as ``loop.create_connection`` does."""
        protocol = make()
        _, transport = connect_in_memory(self._accept(), protocol)
        return transport, protocol

    async def stop(self) -> None:
        """Close everything; sessions live on."""
        self.budget.stop()
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self._connections.values()):
            connection.transport.close()
        for _ in range(int(stop_seconds_max / _look_every_seconds)):
            if not self._connections:
                return
            await asyncio.sleep(_look_every_seconds)
        for connection in list(self._connections.values()):
            connection.transport.abort()

    def _accept(self) -> ZooKeeperConnection:
        self._opened += 1
        address = Address(f"{CONNECTION_PREFIX}{self._opened}")
        return ZooKeeperConnection(self, address, self._time.now().wall_ms)

    @property
    def count(self) -> int:
        """How many connections there are."""
        return len(self._connections)

    # What the machine's host calls (see ``LocalPort``)

    def takes(self, to: Address) -> bool:
        return is_connection(to)

    def send(self, to: Address, message: Message) -> None:
        connection = self._connections.get(to)
        if connection is not None:
            connection.send(cast("ToConnection", message))

    def flush(self) -> None:
        if self._unflushed:
            unflushed, self._unflushed = self._unflushed, []
            for connection in unflushed:
                connection.flush()

    # What connections call (see ``Exchange``)

    def opened(self, connection: ZooKeeperConnection) -> bool:
        self._connections[connection.address] = connection
        return len(self._connections) <= self._connections_max

    def lost(self, connection: ZooKeeperConnection) -> None:
        self._connections.pop(connection.address, None)
        self._held.pop(connection, None)
        self.asked(-connection.asked_bytes)
        self.received += connection.received
        self.sent += connection.sent

    def asked(self, size_bytes: int) -> None:
        self.asked_bytes += size_bytes
        if self._held and 2 * self.asked_bytes <= keeper_asked_bytes_all_max:
            held, self._held = self._held, {}
            for connection in held:
                asyncio.get_running_loop().call_soon(connection.pace)

    def is_full(self, connection: ZooKeeperConnection) -> bool:
        if self.asked_bytes < keeper_asked_bytes_all_max:
            return False
        self._held[connection] = None
        return True

    def tell(self, connection: ZooKeeperConnection, message: FromConnection) -> None:
        self._tell(connection.address, message)

    def refused(self, why: str) -> None:
        self.refusals[why] = self.refusals.get(why, 0) + 1

    def wants_flush(self, connection: ZooKeeperConnection) -> None:
        self._unflushed.append(connection)

    def answer_word(self, word: bytes) -> bytes:
        return answer_word(word, self._facts())

    # What is known of connections

    def traffic(self) -> Traffic:
        """Of all connections since the start."""
        open_now = self._connections.values()
        return Traffic(
            received=self.received + sum(one.received for one in open_now),
            sent=self.sent + sum(one.sent for one in open_now),
            outstanding=sum(one.outstanding for one in open_now),
        )

    def connection_facts(self) -> tuple[ConnectionFacts, ...]:
        """Of those that are open."""
        return tuple(map(_facts_of, self._connections.values()))


def _facts_of(connection: ZooKeeperConnection) -> ConnectionFacts:
    peer = connection.transport.get_extra_info("peername") or ("unknown", 0)
    traffic = Traffic(connection.received, connection.sent, connection.outstanding)
    return ConnectionFacts(
        address=f"{peer[0]}:{peer[1]}",
        session=connection.session,
        timeout_ms=connection.timeout_ms,
        established_ms=connection.opened_ms,
        last_zxid=connection.last_zxid,
        traffic=traffic,
    )
