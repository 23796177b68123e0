"""The client table: who has a session, what was answered last, and what to do with a request.

A client registers, and the op of its register is its session from then on. Its requests are numbered; it
has one in flight, and each names the reply before (``parent``). So a request that comes again is answered
again and not done again, for ever, whichever replica is the primary by then.

The table is part of the replicated state: ``commit`` changes it, once for each committed op, on all
replicas alike.

S1  At most ``clients_max`` sessions, each with a place of its own for its last reply.
S2  A register finds room by evicting the session whose last commit is longest ago, and never a reserved
    one. Of those there are at most ``reserved_max``; whoever asks for one more gets an ordinary session.
S3  A request whose session was evicted while it was prepared is done, and leaves no trace here.
S4  A reserved session can belong to a *lane* of a member's front end. A lane has one of them: that of a later
    incarnation of the member takes the place of the one before, which is evicted. So restarts take no places.
    A register of an earlier incarnation that comes late gets an ordinary session, and evicts nobody's lane.
S5  Where reserved places have run out to sessions that belong to no lane, a lane takes the one whose last
    commit is longest ago: earlier releases left them behind, two with each start.

What the former incarnation of a lane had under way when it was evicted is S3's: it is done once or not at
all, and nobody is told, since its reply has no place here and its client is gone. What arrives after the
register of the new one is committed is not done, because its session is gone.

What a primary does with a request is ``Decision``, read off the tables below: the first row that fits.
Only a primary that has committed all it knows of may evict.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

import msgspec

from motet.core.vsr.config import VsrConfig
from motet.core.vsr.header import OPERATION_MIN, REGISTER, Checksum, Header, checksum
from motet.ids import ClientId, Op

RESERVED_BODY = b"reserved"
"""The body of a register that asks for a reserved session of nobody in particular."""

REGISTER_BODIES = (b"", RESERVED_BODY)

_LANE_PREFIX = b"lane"
_LANE = struct.Struct("<4sBBQ")
_lane_incarnation_max = (1 << 63) - 1
_client_max = (1 << 63) - 1
_encode = msgspec.msgpack.Encoder().encode


class LaneOwner(msgspec.Struct, frozen=True):
    """Whose reserved session it is (S4)."""

    #: its index among the replicas
    member: int
    lane: int
    #: when the member's process began, in milliseconds: a later one takes over
    incarnation: int

    def encode(self) -> bytes:
        """The body of its register."""
        return _LANE.pack(_LANE_PREFIX, self.member, self.lane, self.incarnation)


def decode_owner(body: bytes) -> LaneOwner | None:
    """The lane that a register is of; None for one of no lane."""
    if len(body) != _LANE.size or not body.startswith(_LANE_PREFIX):
        return None
    _, member, lane, incarnation = _LANE.unpack(body)
    return LaneOwner(member, lane, incarnation) if incarnation <= _lane_incarnation_max else None


class Request(Protocol):
    """What is looked at of a request."""

    @property
    def client(self) -> ClientId: ...
    @property
    def session(self) -> int: ...
    @property
    def request(self) -> int: ...
    @property
    def parent(self) -> Checksum: ...
    @property
    def checksum(self) -> Checksum: ...
    @property
    def release(self) -> int: ...
    @property
    def operation(self) -> int: ...
    @property
    def body(self) -> bytes: ...


class Session(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A client, and its last request and reply."""

    client: ClientId
    #: the op of its register
    session: int
    #: the last that is committed
    request: int
    request_checksum: Checksum
    reply_checksum: Checksum
    reply_bytes: int
    #: the op of the last request
    last_op: Op
    #: place of the reply in the file of replies
    slot: int
    is_reserved: bool
    release: int
    #: the lane that it belongs to, as member, lane and incarnation; none, for those of no lane
    owner: tuple[int, int, int] | None = None


class Decision(StrEnum):
    """What a primary does with a request."""

    ACCEPT = "accept"
    REPLY_AGAIN = "reply_again"
    IGNORE_OLD = "ignore_old"
    IGNORE_NEWER_SESSION = "ignore_newer_session"
    IGNORE_CLIENT_BUG = "ignore_client_bug"
    IGNORE_GAP = "ignore_gap"
    IGNORE_PARENT = "ignore_parent"
    WAIT = "wait"
    EVICT_NO_SESSION = "evict_no_session"
    EVICT_SESSION_TOO_LOW = "evict_session_too_low"
    EVICT_RELEASE_TOO_LOW = "evict_release_too_low"
    EVICT_RELEASE_TOO_HIGH = "evict_release_too_high"
    EVICT_RELEASE_MISMATCH = "evict_release_mismatch"
    EVICT_BAD_OPERATION = "evict_bad_operation"
    EVICT_BAD_BODY = "evict_bad_body"
    EVICT_BAD_BODY_SIZE = "evict_bad_body_size"

    @property
    def is_eviction(self) -> bool:
        return self in EVICTION_REASONS


EVICTION_REASONS = {
    Decision.EVICT_NO_SESSION: "no_session",
    Decision.EVICT_SESSION_TOO_LOW: "session_too_low",
    Decision.EVICT_RELEASE_TOO_LOW: "client_release_too_low",
    Decision.EVICT_RELEASE_TOO_HIGH: "client_release_too_high",
    Decision.EVICT_RELEASE_MISMATCH: "session_release_mismatch",
    Decision.EVICT_BAD_OPERATION: "invalid_request_operation",
    Decision.EVICT_BAD_BODY: "invalid_request_body",
    Decision.EVICT_BAD_BODY_SIZE: "invalid_request_body_size",
}
"""What a client is told when it is sent away."""


def reply_checksum(client: ClientId, request: int, op: Op, body: bytes) -> Checksum:
    """What a reply is; the client's next request names it as its parent."""
    return checksum(_encode((client, request, op, body)))


# The decision table

_FormRule = tuple[Decision, Callable[[Request, VsrConfig], bool]]
_SessionRule = tuple[Decision, Callable[[Request, Session], bool]]


def _is_malformed(request: Request) -> bool:
    """No client of ours sends this: a register begins a session, and nothing else does."""
    is_first = request.session == 0 and request.request == 0
    is_later = request.session > 0 and request.request > 0
    return not (is_first if request.operation == REGISTER else is_later)


FORM_RULES: tuple[_FormRule, ...] = (
    (Decision.IGNORE_CLIENT_BUG, lambda request, _: not 0 < request.client <= _client_max),
    (Decision.EVICT_RELEASE_TOO_LOW, lambda request, config: request.release < config.release_min),
    (Decision.EVICT_RELEASE_TOO_HIGH, lambda request, config: request.release > config.release),
    (
        Decision.EVICT_BAD_OPERATION,
        lambda request, _: request.operation < OPERATION_MIN and request.operation != REGISTER,
    ),
    (
        Decision.EVICT_BAD_BODY_SIZE,
        lambda request, config: len(request.body) > config.body_bytes_max,
    ),
    (Decision.IGNORE_CLIENT_BUG, lambda request, _: _is_malformed(request)),
    # what other bodies mean is up to the state machine, which answers for itself
    (
        Decision.EVICT_BAD_BODY,
        lambda request, _: (
            request.operation == REGISTER
            and request.body not in REGISTER_BODIES
            and decode_owner(request.body) is None
        ),
    ),
)
"""For every request: is it one at all?"""

SESSION_RULES: tuple[_SessionRule, ...] = (
    # a register has no session yet, and is told from a repeated one by its number
    (
        Decision.EVICT_SESSION_TOO_LOW,
        lambda request, session: (
            request.operation != REGISTER and request.session < session.session
        ),
    ),
    # requests of a later view than ours are not looked at, so the session cannot be one to come
    (Decision.IGNORE_NEWER_SESSION, lambda request, session: request.session > session.session),
    (Decision.EVICT_RELEASE_MISMATCH, lambda request, session: request.release != session.release),
    (Decision.IGNORE_OLD, lambda request, session: request.request < session.request),
    (
        Decision.REPLY_AGAIN,
        lambda request, session: (
            request.request == session.request and request.checksum == session.request_checksum
        ),
    ),
    (Decision.IGNORE_CLIENT_BUG, lambda request, session: request.request == session.request),
    (Decision.IGNORE_GAP, lambda request, session: request.request > session.request + 1),
    # who does not know the last reply has not waited for it
    (Decision.IGNORE_PARENT, lambda request, session: request.parent != session.reply_checksum),
)
"""For a request of a client that has a session."""


def _is_next(config: VsrConfig, request: Request, session: Session) -> bool:
    """What every well-behaved client sends: then none of the rows above fits, and none need be asked."""
    return (
        request.request == session.request + 1
        and request.parent == session.reply_checksum
        and request.session == session.session
        and request.release == session.release
        and config.release_min <= request.release <= config.release
        and request.operation >= OPERATION_MIN
        and len(request.body) <= config.body_bytes_max
    )


class Sessions(msgspec.Struct):
    """The table itself."""

    by_client: dict[ClientId, Session] = {}

    def decide(self, config: VsrConfig, request: Request, *, is_preparing: bool) -> Decision:
        """What to do with a request; ``is_preparing`` if one of this client's is in the pipeline."""
        session = self.by_client.get(request.client)
        if session is not None and not is_preparing and _is_next(config, request, session):
            return Decision.ACCEPT
        for decision, fits_form in FORM_RULES:
            if fits_form(request, config):
                return decision
        if session is not None:
            for decision, fits in SESSION_RULES:
                if fits(request, session):
                    return decision
        if is_preparing:  # after a view change that may be the very register of this session
            return Decision.WAIT
        if session is None and request.operation != REGISTER:
            return Decision.EVICT_NO_SESSION
        return Decision.ACCEPT

    def commit(
        self, config: VsrConfig, header: Header, request_body: bytes, reply_body: bytes
    ) -> ClientId | None:
        """An op is committed, and this is its reply. Returns the client that lost its session, if any."""
        if header.client == 0 or (
            header.operation != REGISTER and header.operation < OPERATION_MIN
        ):
            return None
        if header.operation == REGISTER:
            return self._register(config, header, request_body, reply_body)
        session = self.by_client.get(header.client)
        if session is not None and session.session == header.session:  # else S3
            self._keep(header, reply_body, session)
        return None

    def _register(
        self, config: VsrConfig, header: Header, request_body: bytes, reply_body: bytes
    ) -> ClientId | None:
        self.by_client.pop(header.client, None)  # a client has one session, its latest
        owner = decode_owner(request_body)
        evicted = None if owner is None else self._former(config, owner)
        if evicted is None and len(self.by_client) == config.clients_max:
            evicted = self._evictee()
        if evicted is not None:
            del self.by_client[evicted]
        is_wanted = request_body == RESERVED_BODY if owner is None else self._is_free(owner)
        is_reserved = is_wanted and self._reserved_count() < config.reserved_max
        place = Session(
            client=header.client,
            session=header.op,
            request=0,
            request_checksum=b"",
            reply_checksum=b"",
            reply_bytes=0,
            last_op=header.op,
            slot=self._free_slot(config.clients_max),
            is_reserved=is_reserved,
            release=header.release,
            owner=None
            if owner is None or not is_reserved
            else (owner.member, owner.lane, owner.incarnation),
        )
        self._keep(header, reply_body, place)
        assert len(self.by_client) <= config.clients_max, "S1"
        return evicted

    def _former(self, config: VsrConfig, owner: LaneOwner) -> ClientId | None:
        """Whose place a lane takes (S4, S5)."""
        held = self._of_lane(owner)
        if held is not None:
            assert held.owner is not None
            return held.client if held.owner[2] <= owner.incarnation else None
        if self._reserved_count() < config.reserved_max:
            return None
        left = [s for s in self.by_client.values() if s.is_reserved and s.owner is None]
        return min(left, key=lambda session: session.last_op).client if left else None

    def _of_lane(self, owner: LaneOwner) -> Session | None:
        lane = (owner.member, owner.lane)
        for session in self.by_client.values():
            if session.owner is not None and session.owner[:2] == lane:
                return session
        return None

    def _is_free(self, owner: LaneOwner) -> bool:
        return self._of_lane(owner) is None

    def _evictee(self) -> ClientId:
        """The one whose last commit is longest ago; no two are equal, for ops are not (S2)."""
        ordinary = [session for session in self.by_client.values() if not session.is_reserved]
        assert ordinary, "S2: reserved_max is below clients_max"
        return min(ordinary, key=lambda session: session.last_op).client

    def _reserved_count(self) -> int:
        return sum(session.is_reserved for session in self.by_client.values())

    def _free_slot(self, clients_max: int) -> int:
        taken = [session.slot for session in self.by_client.values()]
        return next(slot for slot in range(clients_max) if slot not in taken)

    def _keep(self, header: Header, reply_body: bytes, session: Session) -> None:
        """The session after this request and its reply."""
        self.by_client[header.client] = Session(
            client=header.client,
            session=session.session,
            request=header.request,
            request_checksum=header.request_checksum,
            reply_checksum=reply_checksum(header.client, header.request, header.op, reply_body),
            reply_bytes=len(reply_body),
            last_op=header.op,
            slot=session.slot,
            is_reserved=session.is_reserved,
            release=header.release,
            owner=session.owner,
        )

    # In a checkpoint

    def encode(self) -> bytes:
        """Equal for equal tables; sessions of no lane are as earlier releases wrote them."""
        in_order = sorted(self.by_client.values(), key=lambda session: session.slot)
        return _encode(
            [one if one.owner else msgspec.structs.astuple(one)[:-1] for one in in_order]
        )


_decode_sessions = msgspec.msgpack.Decoder(list[Session]).decode


def decode_sessions(config: VsrConfig, data: bytes) -> Sessions | None:
    """The table that was encoded; None if these bytes are none of this cluster."""
    try:
        found = _decode_sessions(data)
    except msgspec.MsgspecError:
        return None
    sessions = Sessions({session.client: session for session in found})
    slots = [session.slot for session in found]
    if slots != sorted(dict.fromkeys(slots)) or len(sessions.by_client) != len(found):
        return None
    if any(not 0 <= slot < config.clients_max for slot in slots):
        return None
    if sessions._reserved_count() > config.reserved_max:
        return None
    return sessions
