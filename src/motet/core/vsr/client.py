"""The client of a cluster: one request at a time, asked again until it is answered.

A client registers, and from then on each of its requests names the reply before it. So a request that is
sent again, to whichever replica, is answered again and done once. It goes to the primary of the newest view
the client has heard of, and then to one replica after the other: any of them passes it on.

L1  One thing is in flight: a request, or the question how new a state must be to be read.
L2  A request that is sent again is the same request; only the view it mentions may be a newer one.
L3  The view only rises. What a replica of an older view says about sessions is not believed.
L4  A client that is evicted is over, and what it had in flight may or may not be done. Whoever goes on does
    so as a new client, under another id.
L5  A request names a view, and a replica that has not come that far drops it. So what was asked of everybody
    in vain names the newest view that was heard of since: a view that nobody is in does not stay.

It is plain data like a core, but no machine of its own: whoever has something to ask steps it, carries its
effects out, and takes the result when there is one.
"""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import CancelTimer, Effect, Message, Now, Send, SetTimer
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.header import NO_CHECKSUM, OPERATION_MIN, REGISTER, Checksum
from motet.core.vsr.messages import (
    Eviction,
    PingClient,
    PongClient,
    ReadBarrier,
    ReadPoint,
    Reply,
    Request,
    sealed_request,
)
from motet.core.vsr.sessions import RESERVED_BODY, LaneOwner, reply_checksum
from motet.ids import Address, ClientId, Op, ReplicaIndex, TimerName, View
from motet.limits import counter_max

RETRY = TimerName("vsr_retry")
retry_ms_max = 1_000


class Replied(msgspec.Struct, frozen=True):
    """The request was committed at this op; request 0 is the register, and its op the session."""

    request: int
    op: Op
    body: bytes


class Evicted(msgspec.Struct, frozen=True):
    """There is no session any more (L4)."""

    reason: str


class ReadAt(msgspec.Struct, frozen=True):
    """A state that has applied this op is as new as the question."""

    op: Op


Result = Replied | Evicted | ReadAt


class ClientState(msgspec.Struct):
    """All there is to a client."""

    client: ClientId
    release: int
    #: the body of its register: which kind of session it asks for
    register_body: bytes
    #: the newest view it has heard of
    view: View = View(0)
    #: the newest since all were asked in vain, and the one that requests name
    view_heard: View = View(0)
    view_named: View = View(0)
    #: 0 before it is registered
    session: int = 0
    #: of the last reply
    parent: Checksum = NO_CHECKSUM
    #: the number of the next request
    request: int = 0
    #: the number of the last read
    read: int = 0
    in_flight: Request | ReadBarrier | None = None
    #: how often that was sent
    attempts: int = 0
    result: Result | None = None
    is_evicted: bool = False


class Client:
    """One session. ``client`` must be fresh: random, and never used before.

    A ``reserved`` one is not evicted for others; that of a lane, its ``owner``, is for the lane's next.
    """

    def __init__(
        self,
        config: VsrConfig,
        client: ClientId,
        *,
        reserved: bool = False,
        owner: LaneOwner | None = None,
        release: int = 1,
    ) -> None:
        assert client > 0
        self.config = config
        # Reads have no session to belong to. Their numbers begin at the id, so that an answer to a read
        # of an earlier client at the same address is not taken for one of ours.
        body = RESERVED_BODY if reserved else b""
        body = body if owner is None else owner.encode()
        self.state = ClientState(client, release, body, read=client)

    @property
    def is_idle(self) -> bool:
        """Registered, with nothing in flight and no result to be taken."""
        state = self.state
        is_open = state.session > 0 and not state.is_evicted
        return is_open and state.in_flight is None and state.result is None

    # Asking

    def begin(self, now: Now) -> list[Effect]:
        """Register; the result is ``Replied`` to request 0."""
        assert self.state.request == 0, "a client registers once"
        return self._ask(self._next_request(REGISTER, self.state.register_body), now)

    def submit(self, operation: int, body: bytes, now: Now) -> list[Effect]:
        """Have an operation done; the result is ``Replied``."""
        assert self.is_idle, "L1"
        assert operation >= OPERATION_MIN
        assert len(body) <= self.config.body_bytes_max
        return self._ask(self._next_request(operation, body), now)

    def read_barrier(self, now: Now) -> list[Effect]:
        """Ask how new a state must be to be read now; the result is ``ReadAt``."""
        assert self.is_idle, "L1"
        self.state.read += 1
        return self._ask(ReadBarrier(self.config.cluster, self.state.read), now)

    def take_result(self) -> Result | None:
        """What came of it, once."""
        result, self.state.result = self.state.result, None
        return result

    def _next_request(self, operation: int, body: bytes) -> Request:
        state = self.state
        request = Request(
            cluster=self.config.cluster,
            client=state.client,
            view=state.view_named,
            session=state.session,
            request=state.request,
            parent=state.parent,
            release=state.release,
            operation=operation,
            body=body,
        )
        state.request += 1
        return sealed_request(request)

    def _ask(self, message: Request | ReadBarrier, now: Now) -> list[Effect]:
        assert self.state.in_flight is None, "L1"
        assert self.state.result is None, "the last result was not taken"
        self.state.in_flight, self.state.attempts = message, 0
        greetings = self._greet_all() if self.state.session == 0 else []
        return [*greetings, *self._send(now)]

    def _greet_all(self) -> list[Effect]:
        """Let each replica know where we are: any of them may have something for us."""
        ping = PingClient(self.config.cluster, self.state.client)
        return [Send(address, ping) for address in self.config.replicas]

    def _send(self, _now: Now) -> list[Effect]:
        state, count = self.state, self.config.count
        message = state.in_flight
        assert message is not None
        view = state.view_named
        if isinstance(message, Request) and message.view != view:
            message = msgspec.structs.replace(message, view=view)  # L2
        to = ReplicaIndex((self.config.primary(view) + state.attempts) % count)
        wait_ms = 2 * self.config.timeouts.heartbeat_ms << min(state.attempts, 10)
        state.attempts += 1
        return [
            Send(self.config.replicas[to], message),
            SetTimer(RETRY, min(wait_ms, retry_ms_max)),
        ]

    def on_timer(self, timer: TimerName, now: Now) -> list[Effect]:
        """No answer in time: greet all again, for they may have restarted, and ask the next."""
        if timer != RETRY or self.state.in_flight is None:
            return []
        self._look_at_view()
        return [*self._greet_all(), *self._send(now)]

    # Answers

    def on_message(self, sender: Address, message: Message, _now: Now) -> list[Effect]:
        """Whatever a replica says; all else is ignored."""
        if not isinstance(message, PongClient | Reply | Eviction | ReadPoint):
            return []
        if self.config.index_of(sender) is None or message.cluster != self.config.cluster:
            return []
        result = self._result_of(message)
        self._hear_view(message.view)
        if result is None:
            return []
        self.state.result, self.state.in_flight = result, None
        return [CancelTimer(RETRY)]

    def _look_at_view(self) -> None:
        """L5. All were asked in vain: hear what view they are in now, and after another round name that."""
        state, count = self.state, self.config.count
        if state.attempts % (2 * count) == count:
            state.view_heard = View(0)
        elif state.attempts % (2 * count) == 0 and state.view_heard:
            state.view_named = state.view_heard

    def _hear_view(self, view: View) -> None:
        """L3, L5."""
        state = self.state
        if not 0 <= view <= counter_max:
            return
        state.view = max(state.view, view)
        state.view_heard = max(state.view_heard, view)
        state.view_named = max(state.view_named, view)

    def _result_of(self, message: Message) -> Result | None:
        if isinstance(message, Reply):
            return self._on_reply(message)
        if isinstance(message, Eviction):
            return self._on_eviction(message)
        if isinstance(message, ReadPoint):
            return self._on_read_point(message)
        return None

    def _on_reply(self, reply: Reply) -> Result | None:
        state, asked = self.state, self.state.in_flight
        if not isinstance(asked, Request) or reply.client != state.client:
            return None
        digest = reply_checksum(reply.client, reply.request, reply.op, reply.body)
        if reply.request != asked.request or reply.checksum != digest:
            return None
        if asked.operation == REGISTER:
            state.session = reply.op
        state.parent = digest
        return Replied(reply.request, reply.op, reply.body)

    def _on_eviction(self, eviction: Eviction) -> Result | None:
        state = self.state
        if eviction.client != state.client or eviction.view < state.view:  # L3
            return None
        if state.is_evicted or state.result is not None:
            return None  # the answer to a copy of what is answered already
        state.is_evicted = True
        return Evicted(eviction.reason)

    def _on_read_point(self, point: ReadPoint) -> Result | None:
        asked = self.state.in_flight
        if not isinstance(asked, ReadBarrier) or point.request != asked.request:
            return None
        return ReadAt(point.op)

    # What drivers of cores need

    def clone(self) -> Self:
        twin = type(self)(self.config, self.state.client)
        twin.state = clone_plain(self.state)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint(self.state)
