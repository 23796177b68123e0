"""The network of a node whose clients live in its own process, and that may listen for others too.

P1  *The same bytes.* A client in the process speaks in frames, as one behind a socket does, so that there is
    one protocol and one driver; only the socket is left out.
P2  *The same bounds.* A full inbox takes no more from clients in the process: ``send`` says so.
P3  *Taking turns.* Clients in the process and those behind sockets take turns in being heard first, so that
    neither can keep the other from a node that is busy.

It belongs to the loop of its node and is called from there alone.

Protocols that are written for sockets, and whose two sides happen to live in one event loop, are connected
by a pipe in memory. Its ends behave as the transport of a socket does:

E1  What is written arrives in order, in a later turn of the event loop, and what gathers in between as one.
E2  Nothing arrives at a side that has stopped reading; whoever writes too much to it is told to pause.
E3  Closing lets what was written arrive first; aborting does not. Both sides are told that it is over, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from motet.format.frame import FRAME_HEADER_BYTES, Frame
from motet.ids import Address
from motet.ports import Delivery
from motet.real.budgets import Inbox
from motet.real.hello import CLIENT_PREFIX, ClusterKey
from motet.real.network import TcpNetwork

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
            self.close()  # E3: the other side has, and all of it has arrived

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


LOOPBACK = "127.0.0.1"


class InProcessNetwork:
    """A node's place among the clients of its process; ``serve`` opens a door to other processes."""

    def __init__(self, address: Address, *, cluster: str, wake: Callable[[], None]) -> None:
        self._address = address
        self._cluster = cluster
        self._wake = wake
        self._inbox = Inbox(wake, _nobody_listens)
        self._clients: dict[Address, InProcessClient] = {}
        self._clients_seen = 0
        #: clients with answers that have not been flushed
        self._unflushed: dict[InProcessClient, None] = {}
        self._tcp: TcpNetwork | None = None
        self._tcp_goes_first = False

    def client(self, wake: Callable[[], None]) -> InProcessClient:
        """A place for one more client; ``wake`` is called when answers have come for it."""
        self._clients_seen += 1
        # Nobody behind a socket can have this name: numbers only are given away there.
        name = Address(f"{CLIENT_PREFIX}local-{self._clients_seen}")
        return InProcessClient(self, name, wake)

    async def serve(self, port: int = 0, takes: tuple[int, ...] = ()) -> int:
        """Listen on loopback as well, from now on; at which port. The system chooses one for 0.

        The greeting says which kinds of frames are taken.
        """
        if self._tcp is None:
            tcp = TcpNetwork(
                self._address,
                cluster=self._cluster,
                listen=(LOOPBACK, port),
                peers={},
                wake=self._wake,
                takes=takes,
                key=ClusterKey.random(),  # an embedded database has no peers: nobody can prove it
            )
            await tcp.start()
            self._tcp = tcp
        return self._tcp.port

    @property
    def door(self) -> TcpNetwork:
        """What listens for others, once ``serve`` was called."""
        assert self._tcp is not None, "not listening"
        return self._tcp

    async def stop(self) -> None:
        """Close the door, if it was opened."""
        if self._tcp is not None:
            await self._tcp.stop()

    # What clients call ------------------------------------------------------------------------------

    def join(self, client: InProcessClient) -> None:
        self._clients[client.address] = client

    def leave(self, client: InProcessClient) -> None:
        self._clients.pop(client.address, None)
        self._unflushed.pop(client, None)

    def offer(self, sender: Address, frames: list[Frame]) -> bool:
        """Frames for the node; False when there is no room for them (P2)."""
        if self._inbox.is_full:
            return False
        self._inbox.put(sender, frames, _wire_bytes(frames))
        return True

    # The port -----------------------------------------------------------------------------------------

    @property
    def address(self) -> Address:
        return self._address

    def send(self, to: Address, frame: Frame) -> bool:
        client = self._clients.get(to)
        if client is not None:
            client.answers.append(frame)
            self._unflushed[client] = None
            return True
        return self._tcp is not None and self._tcp.send(to, frame)

    def flush(self) -> None:
        if self._unflushed:
            unflushed, self._unflushed = self._unflushed, {}
            for client in unflushed:
                client.deliver(self._address)
        if self._tcp is not None:
            self._tcp.flush()

    def take(self, limit: int) -> Sequence[Delivery]:
        if self._tcp is None:
            return self._inbox.take(limit)
        self._tcp_goes_first = not self._tcp_goes_first
        if self._tcp_goes_first:
            taken = list(self._tcp.take(limit))
            return taken + self._inbox.take(limit - len(taken))
        taken = self._inbox.take(limit)
        return taken + list(self._tcp.take(limit - len(taken)))


class InProcessClient:
    """One client's place in that network, between ``start`` and ``stop``; it knows its node alone."""

    def __init__(self, node: InProcessNetwork, address: Address, wake: Callable[[], None]) -> None:
        self._node = node
        self._address = address
        self._inbox = Inbox(wake, _nobody_listens)
        #: what the node has sent and not flushed yet
        self.answers: list[Frame] = []

    async def start(self) -> None:
        self._node.join(self)

    async def stop(self) -> None:
        self._node.leave(self)

    def deliver(self, sender: Address) -> None:
        """The node's answers have come."""
        answers, self.answers = self.answers, []
        self._inbox.put(sender, answers, _wire_bytes(answers))

    @property
    def address(self) -> Address:
        return self._address

    def send(self, to: Address, frame: Frame) -> bool:
        # Handed over at once: it costs nothing here, and tells whether there is room.
        return to == self._node.address and self._node.offer(self._address, [frame])

    def flush(self) -> None:
        """Nothing is ever kept back."""

    def take(self, limit: int) -> Sequence[Delivery]:
        return self._inbox.take(limit)


def _nobody_listens(_is_full: bool) -> None:
    """There is no socket to stop reading from: whoever sends is told."""


def _wire_bytes(frames: list[Frame]) -> int:
    return sum(FRAME_HEADER_BYTES + len(frame.body) for frame in frames)
