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
``context``         what they share
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
from motet.core.keeper.front.context import FrontEndContext
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
from motet.format.zookeeper.messages import CloseSession, ErrorCode, Sync
from motet.ids import Address, ClientId, Op, TimerName

requests_overrun_max = 32_768
"""Whoever reads from a socket finds out that there are enough requests when it has read some more."""

_refused_files = "this replica cannot use its files"


class FrontEnd:
    """The one of a node."""

    def __init__(self, core: Core, config: FrontEndConfig) -> None:
        self.context = FrontEndContext(core, config)

    def begin(self, nonce: int, now: Now) -> None:
        self.context.state.nonce, self.context.now = nonce, now
        self.context.effects += self.context.lanes.begin(nonce, now)
        timekeeping.begin(self.context)

    def take_effects(self) -> list[Effect]:
        effects, self.context.effects = self.context.effects, []
        return effects

    # From connections

    def on_connection(self, address: Address, message: Message, now: Now) -> None:
        self.context.now = now
        connection = self.context.state.connections.by_address.get(address)
        if isinstance(message, Connect):
            self._on_connect(address, connection, message)
        elif connection is None or connection.is_gone:
            return  # it was hung up, and does not know yet
        elif isinstance(message, Ask):
            self._on_ask(connection, message)
        elif isinstance(message, AnswersSent):
            self._on_sent(connection, message)
        elif isinstance(message, Gone):
            self.context.leave(connection, is_gone=True)

    def _on_sent(self, connection: Connection, message: AnswersSent) -> None:
        """C6."""
        left_bytes = max(connection.unsent_bytes - message.size_bytes, 0)
        free_bytes = self.context.config.unsent_bytes_free
        self.context.state.connections.set_unsent(connection, left_bytes, free_bytes)

    def _on_connect(self, address: Address, known: Connection | None, message: Connect) -> None:
        context = self.context
        if known is not None:
            if not known.is_gone:
                context.hang_up(known, "a connection begins once")
        elif len(context.state.connections.by_address) >= context.config.connections_max:
            context.send(address, Hangup("too many connections"))
        elif context.core.state.status is Status.REFUSED:
            context.send(address, Hangup(_refused_files))
        else:
            self._begin_connection(address, message)

    def _begin_connection(self, address: Address, message: Connect) -> None:
        context = self.context
        connection = context.state.connections.begin(address, context.config.lanes)
        connection.touched_monotonic_ns = context.now.monotonic_ns
        entry = connection.add(0, message)
        if message.last_zxid > context.keeper.zxid:  # perhaps this replica lags
            context.state.reads.wait(address, entry.number)
        else:
            entry.op = NOW
        advance(context, connection)

    def _on_ask(self, connection: Connection, message: Ask) -> None:
        context = self.context
        if connection.is_closing:
            return
        if len(connection.entries) >= context.config.requests_max + requests_overrun_max:
            context.hang_up(connection, "too many requests")
            return
        context.state.pulses.heard[connection.address] = None
        request = message.request
        connection.is_closing = isinstance(request, CloseSession)
        is_held = connection.gates > 0
        entry = connection.add(message.xid, request)
        way = WAYS[type(request)]
        is_local = context.config.reads_are_local and not isinstance(request, Sync)
        if way is Way.READ and not is_local:
            context.state.reads.wait(connection.address, entry.number)
        elif way is not Way.LOG:
            entry.op = NOW
        elif not is_held:
            hand_on(context, connection, entry)
        advance(context, connection)

    # From the cluster

    def is_about_us(self, client: ClientId) -> bool:
        return self.context.lanes.is_ours(client)

    @property
    def has_watches(self) -> bool:
        """Somebody here wants to hear of what happens next."""
        return self.context.state.watches.count > 0

    def on_cluster(self, sender: Address, message: Message, now: Now) -> None:
        """A replica, ours or another, has something for the lanes."""
        self.context.now = now
        self.context.effects += self.context.lanes.on_message(sender, message, now)

    def is_timer(self, timer: TimerName) -> bool:
        return timer == timekeeping.PULSE or self.context.lanes.is_timer(timer)

    def on_timer(self, timer: TimerName, now: Now) -> None:
        self.context.now = now
        if timer == timekeeping.PULSE:
            timekeeping.on_timer(self.context)
        else:
            self.context.effects += self.context.lanes.on_timer(timer, now)

    def settle(self, now: Now) -> None:
        """Take what has come back, and send what waits for nothing any more."""
        context = self.context
        context.now = now
        if context.state.connections.has_room:
            go_on(context)
        if not context.lanes.is_begun:
            return
        for result, items in context.lanes.take_results():
            self._on_result(result, items)
        known = context.state.connections.by_address
        context.effects += context.lanes.begin_anew(now)
        context.effects += context.lanes.send_waiting(now, lambda owner: owner in known)
        if context.state.reads.gathered and context.lanes.can_ask:
            context.state.reads.begin()
            context.effects += context.lanes.ask(now)

    def _on_result(self, result: Result, items: list[Item]) -> None:
        if isinstance(result, ReadAt):
            self._on_read_point(result.op)
        elif not isinstance(result, Replied):
            self._lose(items, "what became of a request is not known")
            if not self.context.lanes.is_asking:
                self.context.state.reads.lose()
        elif items:
            self._on_reply(result, items)

    def _on_read_point(self, op: Op) -> None:
        state = self.context.state
        for address, number in state.reads.take_answered():
            connection = state.connections.by_address.get(address)
            if connection is not None and not connection.is_gone:
                connection.entry(number).op = op  # R2
                advance(self.context, connection)

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
                timekeeping.on_outcome(self.context, item.operation, outcome)
                continue
            connection = self._done_on_lane(item)
            if connection is not None and not item.is_part:
                entry = connection.entry(item.number)
                entry.op, entry.outcome = replied.op, outcome
                advance(self.context, connection)

    def _done_on_lane(self, item: Item) -> Connection | None:
        """Who waits for it, if anybody still does."""
        connections = self.context.state.connections
        connection = connections.by_address.get(item.owner)
        if connection is None:
            return None
        connections.done_on_lane(connection)
        return None if connection.is_gone else connection

    def _lose(self, items: list[Item], why: str) -> None:
        """N1, F3."""
        for item in items:
            if item.owner == NOBODY:
                timekeeping.on_outcome(self.context, item.operation, None)
                continue
            connection = self._done_on_lane(item)
            if connection is not None:
                self.context.hang_up(connection, why)

    # From this replica

    def on_replica(self, now: Now) -> None:
        """After each of its steps: tell what it has applied, then answer who waited for that (F1)."""
        context, replica = self.context, self.context.core.state
        context.now = now
        if replica.status is Status.NORMAL and replica.view != context.state.view:
            context.state.view = replica.view
            context.effects += context.lanes.on_view(replica.view)
        elif replica.status is Status.REFUSED:
            self._hang_up_all(_refused_files)
        # Before it has its checkpoint back, commit_min says where it will be.
        is_whole = replica.is_started and replica.restore is None
        if is_whole and replica.commit_min != context.state.applied:
            context.state.applied = replica.commit_min
            self._on_applied()

    def _hang_up_all(self, why: str) -> None:
        for connection in list(self.context.state.connections.by_address.values()):
            if not connection.is_gone:
                self.context.hang_up(connection, why)

    def _on_applied(self) -> None:
        context = self.context
        taken = context.keeper.take_applied()
        if taken.has_gap:
            self._on_gap()
        for applied in taken.applied:
            self._tell(applied)
        for connection in context.state.connections.take_waiting(context.state.applied):
            advance(context, connection)

    def _tell(self, applied: Applied) -> None:
        context = self.context
        for event in applied.events:
            for address in context.state.watches.fire(event):
                context.send(address, Happened(event))
        for session in (*applied.ended_sessions, *applied.moved_sessions):
            connection = context.state.connections.of_session(session)
            if connection is not None:
                self._check_session(connection)

    def _on_gap(self) -> None:
        """F4."""
        connections = self.context.state.connections
        for address in list(self.context.state.watches.by_connection):
            self.context.hang_up(connections.by_address[address], "events were missed")
        for address in list(connections.by_session.values()):
            self._check_session(connections.by_address[address])

    def _check_session(self, connection: Connection) -> None:
        """F2. Who has said goodbye is still to be told that it was heard."""
        error = self.context.keeper.refusal(connection.session, connection.generation)
        if error == ErrorCode.SESSION_MOVED:
            self.context.hang_up(connection, "the session was attached again")
        elif error and not connection.is_closing:
            self.context.hang_up(connection, "the session is over")

    # What a driver and a checker need

    def invariants(self) -> list[Violation]:
        context, found = self.context, []
        count = len(context.state.connections.by_address)
        if count > context.config.connections_max:
            found.append(Violation("C5", f"{count} connections"))
        if context.state.watches.count > context.config.watches_max:
            found.append(Violation("A2", f"{context.state.watches.count} watches"))
        connections = context.state.connections
        counted = sum(each.counted_bytes for each in connections.by_address.values())
        if counted != connections.unsent_bytes:
            found.append(Violation("C6", f"{connections.unsent_bytes} bytes, not {counted}"))
        broken = context.lanes.broken()
        if broken is not None:
            found.append(Violation("N1", broken))
        return found

    def clone(self, core: Core) -> Self:
        twin = type(self)(core, self.context.config)
        twin.context = self.context.clone(core)
        return twin

    def fingerprint(self) -> bytes:
        return self.context.fingerprint()
