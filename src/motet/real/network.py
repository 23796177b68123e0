"""The network port over TCP: frames to named peers, many at a time, in one asyncio loop.

N1  *A turn is a batch.* Frames that arrive are kept until they are taken; frames that are sent are kept
    until they are flushed, and then leave in one write per peer. There is no task per message.
N2  *Everything is bounded.* Peers and clients have an inbox each; a full one stops reading on its connections
    until half of it has been taken. A peer's queue drops what does not fit and counts it; what was flushed
    and not taken by the system is at most once more that much. For clients see :mod:`motet.real.peers`.
N3  *Dialed when needed.* A frame leaves over any connection to its peer, whoever dialed it; without one,
    a known peer is dialed, after a pause that doubles with each failure. What waited for a dial that
    failed is dropped: it would only be stale, and every protocol here repeats itself.
N4  *Nobody is believed without a greeting* (:mod:`motet.real.hello`), and a bad byte ends a connection. A
    node proves the cluster key (:mod:`motet.real.hello`); without a key, nodes are on this machine. Who
    is admitted, and who takes the place of whom, is in :mod:`motet.real.admission`.

It belongs to the loop it was started in and is called from there alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from motet.errors import BadFrame
from motet.format.frame import FRAME_HEADER_BYTES, Frame, encode_batches
from motet.ids import Address
from motet.limits import frame_bytes_max, peer_queue_bytes_max
from motet.ports import Delivery
from motet.real.admission import Acceptor, Admission, listen
from motet.real.budgets import Inbox
from motet.real.connection import Connection
from motet.real.hello import CLIENT_PREFIX, PROTOCOL_VERSION, ClusterKey, Hello, Refusal
from motet.real.peers import ClientsView, HostPort, NetworkClients, NetworkCounters, Nobody, Peer
from motet.real.process import ConnectionLimits

dial_seconds_max = 5.0
redial_seconds_min = 0.02
redial_seconds_max = 1.0
"""The pause before a dial after the first failure, and after many."""

stop_seconds_max = 1.0
"""How long stopping waits for bytes to leave."""

steady_seconds = 1.0
"""A peer that hung up sooner after we reached it is dialed more and more seldom."""


class TcpNetwork:
    """One node's or client's place in the network, between ``start`` and ``stop``.

    A client has no address. It calls its peers what ``peers`` calls them; a node insists that a peer
    answers by the name under which it was dialed. ``wake`` is called when something has arrived and
    nothing was waiting before; ``unreached`` when the last connection to a known peer is lost (True: what was
    sent to it and not answered may have arrived), or none comes about (False: it has not). ``takes`` are the
    kinds of frames that a node's greeting offers, ``bulk`` those that are taken from peers after all others.
    ``key`` is what peers have to prove, ``incarnation`` which of a node's processes this is; with
    ``peers_only``, nobody but ``peers`` may come as a node. ``report`` hears of each connection that is
    closed by us: why, and a line for people.
    """

    def __init__(
        self,
        address: Address | None,
        *,
        cluster: str,
        listen: HostPort | None,
        peers: Mapping[Address, HostPort],
        wake: Callable[[], None],
        unreached: Callable[[Address, bool], None] = lambda _peer, _had_left: None,
        takes: tuple[int, ...] = (),
        clients: ClientsView | None = None,
        key: ClusterKey | None = None,
        incarnation: int = 0,
        peers_only: bool = False,
        report: Callable[[Refusal, str], None] = lambda _why, _detail: None,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 - it is frozen
        accept_failed: Callable[[OSError], None] = lambda _error: None,
        bulk: frozenset[int] = frozenset(),
    ) -> None:
        assert address is None or (address and not address.startswith(CLIENT_PREFIX))
        self._address = address
        own = Hello(PROTOCOL_VERSION, cluster, address or "", takes, incarnation)
        is_node: Callable[[Address], bool] = peers.__contains__ if peers_only else lambda _: True
        self._admission = Admission(own, key, self._open_connections, self._admit, is_node)
        self._report = report
        self._unreached = unreached
        self._listen = listen
        self._counters = NetworkCounters()
        self._inbox = Inbox(wake, partial(self._inbox_became_full, clients=False), bulk)
        #: everybody we know
        self._peers: dict[Address, Peer] = {}
        #: those among them that are no nodes
        set_full = partial(self._inbox_became_full, clients=True)
        self.clients = NetworkClients(self._peers, wake, set_full, clients or Nobody())
        #: everybody we can send to: the same while we run, nobody before and after
        self._sendable: dict[Address, Peer] = {}
        for peer, endpoint in peers.items():
            if peer != address:
                self.add_peer(peer, endpoint)
        #: peers with frames that have not been flushed
        self._unflushed: list[Peer] = []
        self._connections: dict[Connection, None] = {}
        #: set while there is no connection
        self._gone = asyncio.Event()
        self._gone.set()
        self._clients_max, self._accepted_max = limits.native, limits.native + limits.peers
        self._accept_failed = accept_failed
        self._accepted = 0
        self._acceptor: Acceptor | None = None
        self._dials: set[asyncio.Task[None]] = set()
        self._is_running = False

    # Life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, if there is where to listen. Peers are dialed when the first frame is for them."""
        self._loop = asyncio.get_running_loop()
        self._is_running = True
        self._sendable = self._peers
        if self._listen is not None:
            host, port = self._listen
            self._acceptor = Acceptor(listen(host, port), self._accept, self._accept_failed)
            self._acceptor.start()

    async def stop(self) -> None:
        """Let out what is queued, close everything, and wait for that, but not for ever."""
        self.flush()
        self.clients.budget.stop()
        self._is_running = False
        self._sendable = {}
        if self._acceptor is not None:
            self._acceptor.close()
        for dial in self._dials:
            dial.cancel()
        await asyncio.gather(*self._dials, return_exceptions=True)
        for connection in list(self._connections):
            connection.transport.close()
        try:
            async with asyncio.timeout(stop_seconds_max):
                await self._gone.wait()
        except TimeoutError:
            for connection in list(self._connections):
                connection.transport.abort()
            await self._gone.wait()

    @property
    def port(self) -> int:
        """Where we listen: the one that was asked for, or the one the system chose for 0."""
        assert self._acceptor is not None, "not listening"
        return self._acceptor.port

    @property
    def counters(self) -> NetworkCounters:
        """What has been counted up to now."""
        inboxes = self._inbox, self.clients.inbox
        self._counters.frames_in = sum(inbox.frames_in for inbox in inboxes)
        self._counters.bytes_in = sum(inbox.bytes_in for inbox in inboxes)
        self._counters.unsent_bytes = self.clients.unsent_bytes
        self._counters.unfinished_bytes = self.clients.budget.unfinished_bytes
        return self._counters

    def add_peer(self, address: Address, endpoint: HostPort) -> None:
        """Learn where a peer is, or that it has moved."""
        dialed_only = self._admission.dialed_only
        peer = self._peers.setdefault(address, Peer(address, endpoint, dialed_only=dialed_only))
        peer.endpoint, peer.dialed_only = endpoint, dialed_only

    def is_connected(self, address: Address) -> bool:
        """Whether there is a connection to this peer right now."""
        peer = self._peers.get(address)
        return peer is not None and bool(peer.connections)

    # The port -------------------------------------------------------------------------------------

    @property
    def address(self) -> Address:
        return self._address or Address("client")

    def send(self, to: Address, frame: Frame) -> bool:
        try:
            peer = self._sendable[to]
        except KeyError:
            self._counters.dropped_unknown += 1
            return False
        queued_bytes = peer.queued_bytes + FRAME_HEADER_BYTES + len(frame.body)
        if queued_bytes > frame_bytes_max and not self._fits(peer, frame):
            return False
        if peer.is_client:
            self.clients.queued_bytes += queued_bytes - peer.queued_bytes
        peer.queued_bytes = queued_bytes
        queue = peer.queue
        if not queue:
            self._unflushed.append(peer)
        queue.append(frame)
        return True

    def flush(self) -> None:
        if self._unflushed:
            unflushed, self._unflushed = self._unflushed, []
            for peer in unflushed:
                self._flush(peer)

    def take(self, limit: int) -> Sequence[Delivery]:
        clients = self.clients.inbox
        if not clients.count:
            return self._inbox.take(limit)
        # Peers first: clients wait for what they say. But a quarter is for clients.
        taken = self._inbox.take(limit - min(clients.count, limit // 4))
        return taken + clients.take(limit - len(taken))

    # What connections call (see ``Exchange``) -------------------------------------------------------

    def opened(self, connection: Connection) -> Refusal | None:
        counters = self._counters
        counters.connections += 1
        counters.connections_total += 1
        self._connections[connection] = None
        self._gone.clear()
        if connection.dialed is None:
            self._accepted += 1
            if self._accepted > self._accepted_max:
                return Refusal.TOO_MANY
        if not self._is_running:
            return Refusal.STOPPING
        return None

    def greeted(self, connection: Connection, hello: Hello) -> Refusal | None:
        is_client = connection.dialed is None and not hello.address
        if is_client and self.clients.count >= self._clients_max:
            return Refusal.TOO_MANY
        return self._admission.greeted(connection, hello)

    def proved(self, connection: Connection, proof: bytes) -> Refusal | None:
        return self._admission.proved(connection, proof)

    def echoed(self, connection: Connection, token: bytes) -> None:
        self._admission.echoed(connection, token)

    def writable(self, connection: Connection) -> None:
        if connection.address is not None:
            self._flush_due(self._peers[connection.address])
        if connection.is_client:
            self.clients.view.has_room()

    def refused(self, connection: Connection, why: Refusal, detail: str) -> None:
        self._counters.refused[why] += 1
        whom = connection.transport.get_extra_info("peername")
        self._counters.last_refusal = f"{why}: {whom}: {detail}"
        self._report(why, f"{whom}: {detail}")

    def lost(self, connection: Connection) -> None:
        if connection not in self._connections:
            return  # said twice, or never opened
        del self._connections[connection]
        self._counters.connections -= 1
        if connection.dialed is None:
            self._accepted -= 1
        self._admission.lost(connection)
        if connection.address is not None:
            self._lost_route(self._peers[connection.address], connection)
        elif connection.dialed is not None:
            self._dial_failed(self._peers[connection.dialed])
        if not self._connections:
            self._gone.set()

    def _open_connections(self, address: Address) -> list[Connection]:
        peer = self._peers.get(address)
        return [] if peer is None else [one for one in peer.connections if not one.is_over]

    def _admit(self, connection: Connection) -> None:
        address = connection.claimed
        peer = self._peers.setdefault(address, Peer(address, None))
        if connection.is_client:
            self.clients.admit(peer, connection)
        inbox = self.clients.inbox if connection.is_client else self._inbox
        connection.set_inbox_full(inbox.is_full)
        if connection.dialed is not None:
            peer.is_dialing = False
            peer.reached_seconds = self._loop.time()
        for older in list(peer.connections):
            if older.dialed == connection.dialed:
                older.refuse(Refusal.REPLACED, address)
        is_preferred = connection.dialed is not None or not self._admission.dialed_only
        peer.add(connection, is_preferred=is_preferred)
        connection.admit()
        self._flush_due(peer)

    # Writing --------------------------------------------------------------------------------------

    def _fits(self, peer: Peer, frame: Frame) -> bool:
        """Whether a frame that is large, or joins a long queue, can go."""
        frame_bytes = FRAME_HEADER_BYTES + len(frame.body)
        if frame_bytes > frame_bytes_max:
            raise BadFrame(f"a frame of {frame_bytes} bytes exceeds the limit of {frame_bytes_max}")
        if peer.queued_bytes + frame_bytes > peer_queue_bytes_max:
            self._counters.dropped_full += 1
            return False
        return True

    def _flush(self, peer: Peer) -> None:
        if not peer.queue:
            return  # dropped in the meantime
        connection = peer.route()
        if connection is None:
            peer.is_due = True
            if peer.usable is None:
                self._dial(peer)
            return
        queue = peer.queue
        self._counters.frames_out += len(queue)
        pieces = encode_batches(queue, peer.queued_bytes)
        size_bytes = sum(map(len, pieces))
        if peer.is_client:
            self.clients.flushed(peer, connection, size_bytes)
        peer.clear()
        self._counters.bytes_out += size_bytes
        if len(pieces) == 1:
            connection.transport.write(pieces[0])
        else:
            connection.transport.writelines(pieces)

    def _flush_due(self, peer: Peer) -> None:
        if peer.is_due:
            self._flush(peer)

    def _lost_route(self, peer: Peer, connection: Connection) -> None:
        peer.connections.remove(connection)
        if connection.dialed is not None:
            was_steady = self._loop.time() - peer.reached_seconds > steady_seconds
            peer.failures = 0 if was_steady else peer.failures + 1
        if peer.connections:
            self._flush_due(peer)
        elif peer.endpoint is None:
            if peer.is_client:
                self.clients.lost(peer)
            self._counters.dropped_unreachable += peer.clear()
            del self._peers[peer.address]
        else:
            self._unreached(peer.address, True)
            if peer.is_due:
                self._dial(peer)

    # Dialing --------------------------------------------------------------------------------------

    def _dial(self, peer: Peer) -> None:
        if peer.is_dialing or not self._is_running:
            return
        assert peer.endpoint is not None, "who cannot be dialed goes with the last connection"
        peer.is_dialing = True
        dial = self._loop.create_task(self._connect(peer, *peer.endpoint))
        self._dials.add(dial)
        dial.add_done_callback(self._dials.discard)

    async def _connect(self, peer: Peer, host: str, port: int) -> None:
        await asyncio.sleep(redial_seconds(peer.failures))
        self._counters.dials += 1
        connection = self._make_connection(peer.address)
        try:
            async with asyncio.timeout(dial_seconds_max):
                await self._loop.create_connection(lambda: connection, host, port)
        except (OSError, ValueError):  # a time that ran out and a host that is none among them
            self._dial_failed(peer)
        except asyncio.CancelledError:
            # Cut off between its opening and its first bytes, it may never be told that it is lost.
            self.lost(connection)
            raise

    def _accept(self) -> Connection:
        return self._make_connection(None)

    def _make_connection(self, dialed: Address | None) -> Connection:
        return Connection(self, self._inbox.put, self._admission.make_hello(), dialed)

    def _dial_failed(self, peer: Peer) -> None:
        peer.is_dialing = False
        peer.failures += 1
        self._counters.dials_failed += 1
        if peer.usable is not None:
            return  # it has come to us in the meantime
        self._counters.dropped_unreachable += peer.clear()
        self._unreached(peer.address, False)

    def _inbox_became_full(self, is_full: bool, *, clients: bool) -> None:
        self._counters.pauses += is_full
        for connection in self._connections:
            if connection.is_client == clients:
                connection.set_inbox_full(is_full)


def redial_seconds(failures: int) -> float:
    """How long to wait before a dial, after so many that failed in a row."""
    if failures == 0:
        return 0.0
    return min(redial_seconds_max, redial_seconds_min * float(2 ** min(failures - 1, 16)))
