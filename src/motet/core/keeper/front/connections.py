"""Connections: who speaks for which session, and what each has asked for, in its order.

C1  A connection has one queue. Answers leave from its head alone, so they are in the order of requests, and
    whatever is answered has seen all that was answered before it on the same connection.
C2  A *gate* is what looks at the state of this replica when it is answered: the handshake, a read, a sync.
    Nothing behind a gate is handed on before the gate is answered: a read sees no later write of its own
    client, and the zxids a client is told never fall.
C3  What has no gate before it is handed on at once: a run of writes is under way together.
C4  A session has at most one open connection here, the one with its latest generation.
C5  An address is never used again. A connection that is gone is kept until nothing of it is under way any
    more: what is handed on and not yet done is bounded by how many connections there may be.
C6  Answers are given as fast as they leave. A connection with ``unsent_bytes_max`` of answers that have not
    left gets no further answer; while all connections together have ``unsent_bytes_all_max``, nothing is read
    for anybody. What is held back goes on when answers have left, or a connection that has some is over.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from enum import IntEnum

import msgspec

from motet.core.keeper.ids import Generation
from motet.core.keeper.messages import Connect
from motet.core.keeper.operations import Outcome
from motet.format.zookeeper.messages import (
    Auth,
    Check,
    CloseSession,
    Create,
    Create2,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiRead,
    Ping,
    SetAcl,
    SetData,
    SetWatches,
    Sync,
    Unknown,
)
from motet.format.zookeeper.records import AnyRequest
from motet.ids import Address, Op, SessionId

NO_SESSION = SessionId(0)
NO_PASSWORD = bytes(16)
NOW = Op(0)
"""Every replica has applied this."""


class Way(IntEnum):
    """How something that was asked for gets its answer."""

    #: through the log: a write, or a change of the session
    LOG = 1
    #: here, from a state that is new enough; a gate
    READ = 2
    #: here, from the state as it is; a gate
    LOOK = 3
    #: here, from nothing
    SAY = 4


WAYS: dict[type, Way] = {
    **dict.fromkeys((Create, Create2, Delete, SetData, SetAcl, Check, Multi), Way.LOG),
    **dict.fromkeys((Auth, CloseSession), Way.LOG),
    **dict.fromkeys((Exists, GetData, GetAcl, GetChildren, GetChildren2, MultiRead), Way.READ),
    Sync: Way.READ,
    SetWatches: Way.LOOK,
    Connect: Way.LOOK,
    Ping: Way.SAY,
    Unknown: Way.SAY,
}
"""The way of each request. A handshake is done through the log too, but looks here when that is done."""


class Entry(msgspec.Struct):
    """Something that was asked for and is not answered yet."""

    number: int
    xid: int
    request: AnyRequest | Connect
    #: when this replica has applied so much, the answer may leave; None while that is not known
    op: Op | None = None
    #: what the log says, or why it was not asked
    outcome: Outcome | None = None

    @property
    def is_gate(self) -> bool:
        return WAYS[type(self.request)] in (Way.READ, Way.LOOK)


class Connection(msgspec.Struct):
    """A client, as long as its socket is open."""

    address: Address
    lane: int
    #: entries[i] has the number entries[0].number + i; the head is answered next
    entries: list[Entry] = []
    entries_begun: int = 0
    #: gates among the entries
    gates: int = 0
    #: handed on to the lane, without an outcome so far; those that are answered do not count
    on_lane: int = 0
    #: the op its head waits for, as noted among the waits
    waits_op: Op | None = None
    session: SessionId = NO_SESSION
    generation: Generation = Generation(0)
    password: bytes = NO_PASSWORD
    timeout_ms: int = 0
    #: no later than the last touch of its session that is known to be in the log
    touched_monotonic_ns: int = 0
    #: answers that were given, and have not left as far as is known (C6)
    unsent_bytes: int = 0
    #: as much of them as counts towards those of all connections
    counted_bytes: int = 0
    #: it has said goodbye: nothing more is taken from it
    is_closing: bool = False
    is_gone: bool = False

    @property
    def is_open(self) -> bool:
        """It speaks for a session."""
        return self.session != NO_SESSION and not self.is_gone

    def add(self, xid: int, request: AnyRequest | Connect) -> Entry:
        entry = Entry(self.entries_begun, xid, request)
        self.entries_begun += 1
        self.entries.append(entry)
        self.gates += entry.is_gate
        return entry

    def pop(self) -> Entry:
        """The head, to be answered (C1)."""
        entry = self.entries.pop(0)
        self.gates -= entry.is_gate
        return entry

    def entry(self, number: int) -> Entry:
        return self.entries[number - self.entries[0].number]

    def before_gate(self) -> list[Entry]:
        """What nothing holds back any more (C2)."""
        if not self.gates:
            return list(self.entries)
        place = next(place for place, entry in enumerate(self.entries) if entry.is_gate)
        return self.entries[:place]


class Connections(msgspec.Struct):
    """All of one front end."""

    by_address: dict[Address, Connection] = {}
    #: of the open ones (C4)
    by_session: dict[SessionId, Address] = {}
    #: connections whose head waits for an op to be applied here, the lowest op first
    waits: list[tuple[Op, Address]] = []
    begun: int = 0
    #: answers that have not left, without what is free for each connection (C6)
    unsent_bytes: int = 0
    #: connections with a head that could be answered, if it were not for C6 (the values mean nothing)
    held: dict[Address, None] = {}
    #: some have left since those were looked at
    has_room: bool = False

    def begin(self, address: Address, lanes: int) -> Connection:
        """A new one, on the lane that is next."""
        assert address not in self.by_address, "C5"
        connection = Connection(address, self.begun % lanes)
        self.begun += 1
        self.by_address[address] = connection
        return connection

    def of_session(self, session: SessionId) -> Connection | None:
        """The open one of this session."""
        address = self.by_session.get(session)
        return None if address is None else self.by_address[address]

    def speak_for(self, connection: Connection, session: SessionId, generation: Generation) -> None:
        assert session not in self.by_session, "C4"
        connection.session, connection.generation = session, generation
        self.by_session[session] = connection.address

    def leave(self, connection: Connection, *, is_gone: bool) -> None:
        """It is over; one that is ``gone`` is kept while something of it is under way (C5)."""
        if self.by_session.get(connection.session) == connection.address:
            del self.by_session[connection.session]
        self.set_unsent(connection, 0, 0)
        self.held.pop(connection.address, None)
        connection.entries, connection.gates, connection.waits_op = [], 0, None
        connection.is_gone = is_gone
        if not is_gone or not connection.on_lane:
            del self.by_address[connection.address]

    def done_on_lane(self, connection: Connection) -> None:
        """Something it had under way is done, or lost."""
        connection.on_lane -= 1
        assert connection.on_lane >= 0
        if connection.is_gone and not connection.on_lane:
            del self.by_address[connection.address]

    # Waiting for answers to leave

    def set_unsent(self, connection: Connection, size_bytes: int, free_bytes: int) -> None:
        """So much of its answers has not left by now (C6)."""
        self.has_room |= size_bytes < connection.unsent_bytes
        self.unsent_bytes -= connection.counted_bytes
        connection.unsent_bytes = size_bytes
        connection.counted_bytes = max(size_bytes - free_bytes, 0)
        self.unsent_bytes += connection.counted_bytes

    # Waiting for this replica

    def wait(self, connection: Connection, op: Op) -> None:
        """Its head can be answered when this op is applied here."""
        if connection.waits_op != op:
            connection.waits_op = op
            insort(self.waits, (op, connection.address))

    def take_waiting(self, applied: Op) -> list[Connection]:
        """Those whose head waited for nothing later than this."""
        count = bisect_right(self.waits, applied, key=lambda wait: wait[0])
        due, self.waits = self.waits[:count], self.waits[count:]
        taken = []
        for op, address in due:
            connection = self.by_address.get(address)
            if connection is not None and connection.waits_op == op:
                connection.waits_op = None
                taken.append(connection)
        return taken
