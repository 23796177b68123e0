"""The front end: ZooKeeper's clients on one side, a replica and the cluster on the other.

It is no machine of its own but a part of one: ``node`` gives it what concerns it, and carries its effects
out. How to read it, a file per concept:

===============  ===========================================================================
``connections``  who speaks for which session; what each connection has asked for, in order
``progress``     how that gets from the tail of the queue to its head, and out
``answers``      what each request becomes, and what it is answered
``lanes``        how operations get into the log, and what comes back
``reads``        how new this replica must be for a read
``watches``      who hears of what
``pulses``       keeping sessions alive, letting time pass; ``timekeeping`` is when
``desk``         what they share
===============  ===========================================================================

F1  An answer to something that was logged at an op leaves when this replica has applied that op, and after
    all events of what it has applied: no answer tells of a change before its event does. The same holds for
    reads, for they are answered from what is applied here.
F2  Whoever may not speak for a session any more is hung up as soon as this replica knows.
F3  What was not answered when a connection is hung up is unknown to its client, which is what a lost
    connection means. Nothing is ever answered that might not be so.
F4  Whoever missed events, because this replica took over a whole state, and has watches, is hung up.
"""

from __future__ import annotations

from typing import Self

from motet.core.keeper.front import timekeeping
from motet.core.keeper.front.connections import NOW, WAYS, Connection, Way
from motet.core.keeper.front.desk import Desk
from motet.core.keeper.front.lanes import NOBODY, Item
from motet.core.keeper.front.progress import advance, go_on, hand_on
from motet.core.keeper.messages import (
    AnswersSent,
    Ask,
    Connect,
    FrontEndConfig,
    Gone,
    Hangup,
    Happened,
)
from motet.core.keeper.operations import Outcomes, decode_reply
from motet.core.keeper.stream import Applied
from motet.core.machine import Effect, Message, Now, Violation
from motet.core.vsr.client import ReadAt, Replied, Result
from motet.core.vsr.context import Core
from motet.core.vsr.state import Status
from motet.errors import BadRecord
from motet.format.zookeeper.answers import ErrorCode
from motet.format.zookeeper.requests import CloseSession, Sync
from motet.ids import Address, ClientId, Op, TimerName

requests_overrun_max = 32_768
"""Whoever reads from a socket finds out that there are enough requests when it has read some more."""

_refused_files = "this replica cannot use its files"


class FrontEnd:
    """The one of a node."""

    def __init__(self, core: Core, config: FrontEndConfig) -> None:
        self.desk = Desk(core, config)

    def begin(self, nonce: int, now: Now) -> None:
        self.desk.state.nonce, self.desk.now = nonce, now
        self.desk.effects += self.desk.lanes.begin(nonce, now)
        timekeeping.begin(self.desk)

    def take_effects(self) -> list[Effect]:
        effects, self.desk.effects = self.desk.effects, []
        return effects

    # From connections

    def on_connection(self, address: Address, message: Message, now: Now) -> None:
        self.desk.now = now
        connection = self.desk.state.connections.by_address.get(address)
        if isinstance(message, Connect):
            self._on_connect(address, connection, message)
        elif connection is None or connection.is_gone:
            return  # it was hung up, and does not know yet
        elif isinstance(message, Ask):
            self._on_ask(connection, message)
        elif isinstance(message, AnswersSent):
            self._on_sent(connection, message)
        elif isinstance(message, Gone):
            self.desk.leave(connection, is_gone=True)

    def _on_sent(self, connection: Connection, message: AnswersSent) -> None:
        """C6."""
        left_bytes = max(connection.unsent_bytes - message.size_bytes, 0)
        free_bytes = self.desk.config.unsent_bytes_free
        self.desk.state.connections.set_unsent(connection, left_bytes, free_bytes)

    def _on_connect(self, address: Address, known: Connection | None, message: Connect) -> None:
        desk = self.desk
        if known is not None:
            if not known.is_gone:
                desk.hang_up(known, "a connection begins once")
        elif len(desk.state.connections.by_address) >= desk.config.connections_max:
            desk.send(address, Hangup("too many connections"))
        elif desk.core.state.status is Status.REFUSED:
            desk.send(address, Hangup(_refused_files))
        else:
            self._begin_connection(address, message)

    def _begin_connection(self, address: Address, message: Connect) -> None:
        desk = self.desk
        connection = desk.state.connections.begin(address, desk.config.lanes)
        connection.touched_monotonic_ns = desk.now.monotonic_ns
        entry = connection.add(0, message)
        if message.last_zxid > desk.keeper.zxid:  # perhaps this replica lags
            desk.state.reads.wait(address, entry.number)
        else:
            entry.op = NOW
        advance(desk, connection)

    def _on_ask(self, connection: Connection, message: Ask) -> None:
        desk = self.desk
        if connection.is_closing:
            return
        if len(connection.entries) >= desk.config.requests_max + requests_overrun_max:
            desk.hang_up(connection, "too many requests")
            return
        desk.state.pulses.heard[connection.address] = None
        request = message.request
        connection.is_closing = isinstance(request, CloseSession)
        is_held = connection.gates > 0
        entry = connection.add(message.xid, request)
        way = WAYS[type(request)]
        is_local = desk.config.reads_are_local and not isinstance(request, Sync)
        if way is Way.READ and not is_local:
            desk.state.reads.wait(connection.address, entry.number)
        elif way is not Way.LOG:
            entry.op = NOW
        elif not is_held:
            hand_on(desk, connection, entry)
        advance(desk, connection)

    # From the cluster

    def is_about_us(self, client: ClientId) -> bool:
        return self.desk.lanes.is_ours(client)

    def on_cluster(self, sender: Address, message: Message, now: Now) -> None:
        """A replica, ours or another, has something for the lanes."""
        self.desk.now = now
        self.desk.effects += self.desk.lanes.on_message(sender, message, now)

    def is_timer(self, timer: TimerName) -> bool:
        return timer == timekeeping.PULSE or self.desk.lanes.is_timer(timer)

    def on_timer(self, timer: TimerName, now: Now) -> None:
        self.desk.now = now
        if timer == timekeeping.PULSE:
            timekeeping.on_timer(self.desk)
        else:
            self.desk.effects += self.desk.lanes.on_timer(timer, now)

    def settle(self, now: Now) -> None:
        """Take what has come back, and send what waits for nothing any more."""
        desk = self.desk
        desk.now = now
        if desk.state.connections.has_room:
            go_on(desk)
        if not desk.lanes.is_begun:
            return
        for result, items in desk.lanes.take_results():
            self._on_result(result, items)
        known = desk.state.connections.by_address
        desk.effects += desk.lanes.begin_anew(now)
        desk.effects += desk.lanes.send_waiting(now, lambda owner: owner in known)
        if desk.state.reads.gathered and desk.lanes.can_ask:
            desk.state.reads.begin()
            desk.effects += desk.lanes.ask(now)

    def _on_result(self, result: Result, items: list[Item]) -> None:
        if isinstance(result, ReadAt):
            self._on_read_point(result.op)
        elif not isinstance(result, Replied):
            self._lose(items, "what became of a request is not known")
            if not self.desk.lanes.is_asking:
                self.desk.state.reads.lose()
        elif items:
            self._on_reply(result, items)

    def _on_read_point(self, op: Op) -> None:
        state = self.desk.state
        for address, number in state.reads.take_answered():
            connection = state.connections.by_address.get(address)
            if connection is not None and not connection.is_gone:
                connection.entry(number).op = op  # R2
                advance(self.desk, connection)

    def _on_reply(self, replied: Replied, items: list[Item]) -> None:
        try:
            reply = decode_reply(replied.body)
        except BadRecord:
            reply = None
        if not isinstance(reply, Outcomes) or len(reply.outcomes) != len(items):
            self._lose(items, "the cluster has answered with something else")
            return
        for item, outcome in zip(items, reply.outcomes, strict=True):
            if item.owner == NOBODY:
                timekeeping.on_outcome(self.desk, item.operation, outcome)
                continue
            connection = self._done_on_lane(item)
            if connection is not None and not item.is_part:
                entry = connection.entry(item.number)
                entry.op, entry.outcome = replied.op, outcome
                advance(self.desk, connection)

    def _done_on_lane(self, item: Item) -> Connection | None:
        """Who waits for it, if anybody still does."""
        connections = self.desk.state.connections
        connection = connections.by_address.get(item.owner)
        if connection is None:
            return None
        connections.done_on_lane(connection)
        return None if connection.is_gone else connection

    def _lose(self, items: list[Item], why: str) -> None:
        """N1, F3."""
        for item in items:
            if item.owner == NOBODY:
                timekeeping.on_outcome(self.desk, item.operation, None)
                continue
            connection = self._done_on_lane(item)
            if connection is not None:
                self.desk.hang_up(connection, why)

    # From this replica

    def on_replica(self, now: Now) -> None:
        """After each of its steps: tell what it has applied, then answer who waited for that (F1)."""
        desk, replica = self.desk, self.desk.core.state
        desk.now = now
        if replica.status is Status.NORMAL and replica.view != desk.state.view:
            desk.state.view = replica.view
            desk.effects += desk.lanes.on_view(replica.view)
        elif replica.status is Status.REFUSED:
            self._hang_up_all(_refused_files)
        # Before it has its checkpoint back, commit_min says where it will be.
        is_whole = replica.is_started and replica.restore is None
        if is_whole and replica.commit_min != desk.state.applied:
            desk.state.applied = replica.commit_min
            self._on_applied()

    def _hang_up_all(self, why: str) -> None:
        for connection in list(self.desk.state.connections.by_address.values()):
            if not connection.is_gone:
                self.desk.hang_up(connection, why)

    def _on_applied(self) -> None:
        desk = self.desk
        taken = desk.keeper.take_applied()
        if taken.has_gap:
            self._on_gap()
        for applied in taken.applied:
            self._tell(applied)
        for connection in desk.state.connections.take_waiting(desk.state.applied):
            advance(desk, connection)

    def _tell(self, applied: Applied) -> None:
        desk = self.desk
        for event in applied.events:
            for address in desk.state.watches.fire(event):
                desk.send(address, Happened(event))
        for session in (*applied.ended_sessions, *applied.moved_sessions):
            connection = desk.state.connections.of_session(session)
            if connection is not None:
                self._check_session(connection)

    def _on_gap(self) -> None:
        """F4."""
        connections = self.desk.state.connections
        for address in list(self.desk.state.watches.by_connection):
            self.desk.hang_up(connections.by_address[address], "events were missed")
        for address in list(connections.by_session.values()):
            self._check_session(connections.by_address[address])

    def _check_session(self, connection: Connection) -> None:
        """F2. Who has said goodbye is still to be told that it was heard."""
        error = self.desk.keeper.refusal(connection.session, connection.generation)
        if error == ErrorCode.SESSION_MOVED:
            self.desk.hang_up(connection, "the session was attached again")
        elif error and not connection.is_closing:
            self.desk.hang_up(connection, "the session is over")

    # What a driver and a checker need

    def invariants(self) -> list[Violation]:
        desk, found = self.desk, []
        count = len(desk.state.connections.by_address)
        if count > desk.config.connections_max:
            found.append(Violation("C5", f"{count} connections"))
        if desk.state.watches.count > desk.config.watches_max:
            found.append(Violation("A2", f"{desk.state.watches.count} watches"))
        connections = desk.state.connections
        counted = sum(each.counted_bytes for each in connections.by_address.values())
        if counted != connections.unsent_bytes:
            found.append(Violation("C6", f"{connections.unsent_bytes} bytes, not {counted}"))
        broken = desk.lanes.broken()
        if broken is not None:
            found.append(Violation("N1", broken))
        return found

    def clone(self, core: Core) -> Self:
        twin = type(self)(core, self.desk.config)
        twin.desk = self.desk.clone(core)
        return twin

    def fingerprint(self) -> bytes:
        return self.desk.fingerprint()
