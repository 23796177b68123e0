"""Accepts connections, decides who is admitted to a network, and when one replaces another.

A client has no address of its own and gets one; it proves nothing, and what it may say is up to the machines
(see ``Hosting.from_clients``). A node is admitted under its id:

A1  With a cluster key, both sides prove it (:mod:`motet.real.hello`). Without one, only nodes on this
    machine are admitted. A node with a key and one without do not admit each other.
A2  A node that we dialed goes by the id under which we dialed it. Nobody goes by our own id, nor by one that
    is not in the configuration, where a list of all nodes is given.

A node id belongs to one process at a time. With a key, the incarnation of each process is proven as well:

T1  The same incarnation is the same process. What it dials later replaces what it dialed before: the
    earlier connection must be dead, or it would not have dialed.
T2  A lower incarnation than that of an open connection is refused. It is a duplicate.
T3  A higher incarnation is either the next process of that node or a duplicate that was started later. The
    open connections are probed: one echo, and the newcomer is the duplicate and is refused. If all of them
    end, or none has answered when the time is over, the newcomer takes their place.

Without a key nothing is proven, and peers are on this machine. There a connection ends with its process, so
that nothing needs to be replaced:

T4  A second connection in the same direction is refused as long as the first is open.
T5  Frames to a node in our configuration leave over a connection that we dialed: at that address is the
    node itself, as long as it runs. What a node has dialed is only listened to.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import socket
from collections.abc import Callable, Sequence

import msgspec

from motet.ids import Address
from motet.real.connection import Connection
from motet.real.hello import (
    CLIENT_PREFIX,
    PROTOCOL_VERSION,
    ClusterKey,
    Hello,
    Refusal,
    fresh_nonce,
    is_proof,
    make_proof,
)

pause_seconds = 0.5
"""How long nothing is accepted after the system could not give us a connection."""

accepted_at_once_max = 64


class Acceptor:
    """Accepts at these sockets from ``start`` to ``close``; ``report`` hears why it had to pause.

    No error of accepting ends it or makes it spin: without a free descriptor a loop's own server may close
    for good. This one pauses for a moment; connections that came meanwhile wait in the system's queue.
    """

    def __init__(
        self,
        listening: Sequence[socket.socket],
        make: Callable[[], asyncio.Protocol],
        report: Callable[[OSError], None] = lambda _error: None,
    ) -> None:
        self._listening = tuple(listening)
        self._make = make
        self._report = report
        self._is_open = False
        #: connections that are being made
        self._making: set[asyncio.Task[object]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}

    @property
    def port(self) -> int:
        port: int = self._listening[0].getsockname()[1]
        return port

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        for each in self._listening:
            each.setblocking(False)
            self._loop.add_reader(each.fileno(), self._accept, each)

    def close(self) -> None:
        """Accept no more. A second time is fine."""
        if self._is_open:
            self._is_open = False
            for pause in self._pauses.values():
                pause.cancel()
            for each in self._listening:
                self._loop.remove_reader(each.fileno())
                each.close()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(accepted_at_once_max):
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening)
                self._report(error)
                return
            accepted.setblocking(False)
            making = self._loop.create_task(self._connect(accepted))
            self._making.add(making)
            making.add_done_callback(self._making.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, accepted)
        except OSError:  # gone again
            with contextlib.suppress(OSError):
                accepted.close()

    def _pause(self, listening: socket.socket) -> None:
        self._loop.remove_reader(listening.fileno())
        self._pauses[listening] = self._loop.call_later(pause_seconds, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        if self._is_open:
            self._loop.add_reader(listening.fileno(), self._accept, listening)


def listen(host: str, port: int, *, backlog: int = 1024) -> list[socket.socket]:
    """Sockets that listen there, one for each address of the host; ``OSError`` when a port is taken."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = dict.fromkeys((family, address) for family, _, _, _, address in found)
    listening: list[socket.socket] = []
    try:
        for family, address in addresses:
            listening.append(socket.create_server(address[:2], family=family, backlog=backlog))
    except BaseException:
        for each in listening:
            each.close()
        raise
    return listening


probe_seconds_max = 2.0
"""How long an older connection of a peer has for an echo, before a newer incarnation takes over (T3)."""


class Admission:
    """Judges what connections claim. ``own`` is our greeting; one without an address is a client's.

    ``open_connections`` are those of a peer that are admitted and not closed, ``admit`` adds one. Nodes are
    those that ``is_node`` knows.
    """

    def __init__(
        self,
        own: Hello,
        key: ClusterKey | None,
        open_connections: Callable[[Address], list[Connection]],
        admit: Callable[[Connection], None],
        is_node: Callable[[Address], bool],
    ) -> None:
        self._own, self._key = own, key
        self._is_node = is_node
        self._open_connections = open_connections
        self._admit = admit
        self._clients = 0
        #: nodes whose id is still in use by another connection, and what finds out whether it is alive
        self._probes: dict[Connection, Probe] = {}

    def make_hello(self) -> Hello:
        """The greeting for a new connection."""
        if self._key is None or not self._own.address:
            return self._own
        return msgspec.structs.replace(self._own, nonce=fresh_nonce())

    @property
    def dialed_only(self) -> bool:
        """T5."""
        return self._key is None

    # What has come

    def greeted(self, connection: Connection, hello: Hello) -> Refusal | None:
        """A greeting; without a refusal it is admitted, or its proof is awaited."""
        if hello.version != PROTOCOL_VERSION:
            return Refusal.WRONG_VERSION
        if hello.cluster != self._own.cluster:
            return Refusal.WRONG_CLUSTER
        address = self._address_of(connection, hello)
        if address is None:
            return Refusal.WRONG_ADDRESS
        connection.claimed = address
        if connection.is_client or not self._own.address:
            self._admit(connection)
            return None
        if self._key is not None:
            if not hello.nonce:
                return Refusal.UNPROVEN
            is_ours = connection.dialed is not None
            connection.prove(make_proof(self._key, connection.own_hello, hello, dialed=is_ours))
            return None
        return self._admit_unproven(connection, hello)

    def proved(self, connection: Connection, proof: bytes) -> Refusal | None:
        """A proof; without a refusal it is admitted, or held until older connections are probed."""
        hello, ours = connection.hello, connection.own_hello
        assert self._key is not None, "without a key there is no proof to wait for"
        assert hello is not None
        if not is_proof(self._key, proof, hello, ours, dialed=connection.dialed is None):
            return Refusal.UNPROVEN
        return self._take_over(connection)

    def echoed(self, connection: Connection, token: bytes) -> None:
        for probe in list(self._probes.values()):
            probe.on_echo(connection, token)

    def lost(self, connection: Connection) -> None:
        own_probe = self._probes.pop(connection, None)
        if own_probe is not None:
            own_probe.cancel()
        for probe in list(self._probes.values()):
            probe.on_lost(connection)

    # Judging

    def _address_of(self, connection: Connection, hello: Hello) -> Address | None:
        """By which name the other side goes here; None when it may not have that name (A2)."""
        claimed = Address(hello.address)
        if connection.dialed is not None:
            is_right = not self._own.address or claimed == connection.dialed
            return connection.dialed if is_right else None
        if not claimed:
            self._clients += 1
            connection.is_client = True
            return Address(f"{CLIENT_PREFIX}{self._clients}")
        if claimed == self._own.address or claimed.startswith(CLIENT_PREFIX):
            return None
        return claimed if self._is_node(claimed) else None

    def _admit_unproven(self, connection: Connection, hello: Hello) -> Refusal | None:
        if hello.nonce:  # it has a key, and will want to see it proven
            return Refusal.UNPROVEN
        if not is_loopback(connection):
            return Refusal.NOT_LOOPBACK
        others = self._open_connections(connection.claimed)
        if any(one.dialed == connection.dialed for one in others):
            return Refusal.DUPLICATE  # T4
        self._admit(connection)
        return None

    def _take_over(self, connection: Connection) -> Refusal | None:
        """T1 to T3."""
        incarnation = connection.incarnation
        present = self._open_connections(connection.claimed)
        others = [one for one in present if one.incarnation != incarnation]
        if not others:
            self._admit(connection)
            return None
        if any(one.incarnation > incarnation for one in others):
            return Refusal.DUPLICATE
        connection.hold()
        over = lambda is_alive: self._probed(connection, is_alive)  # noqa: E731
        self._probes[connection] = Probe(others, over)
        return None

    def _probed(self, connection: Connection, is_alive: bool) -> None:
        probe = self._probes.pop(connection)
        if connection.is_over:
            return
        if is_alive:
            connection.refuse(Refusal.DUPLICATE, repr(connection.hello))
            return
        for older in list(probe.older):
            older.refuse(Refusal.REPLACED, connection.claimed)
        refusal = self._take_over(connection)  # another one may have come in the meantime
        if refusal is not None:
            connection.refuse(refusal, repr(connection.hello))


class Probe:
    """Asks the older connections of a peer for an echo; ``over`` hears once whether there was one."""

    def __init__(self, older: Sequence[Connection], over: Callable[[bool], None]) -> None:
        self.older = list(older)
        self._over = over
        self._token = secrets.token_bytes(16)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(probe_seconds_max, self._end, False)
        for connection in self.older:
            connection.probe(self._token)

    def on_echo(self, connection: Connection, token: bytes) -> None:
        if connection in self.older and token == self._token:
            self._end(True)

    def on_lost(self, connection: Connection) -> None:
        if connection in self.older:
            self.older.remove(connection)
            if not self.older:
                self._end(False)

    def cancel(self) -> None:
        self._deadline.cancel()

    def _end(self, is_alive: bool) -> None:
        self._deadline.cancel()
        self._over(is_alive)


def is_loopback(connection: Connection) -> bool:
    """Whether the other side is on this machine."""
    name = connection.transport.get_extra_info("peername")
    try:
        address = ipaddress.ip_address(str(name[0]).partition("%")[0])
    except (TypeError, ValueError, IndexError):
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
