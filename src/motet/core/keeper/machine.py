"""The keeper: what the replicas replicate.

K1  Every write uses one zxid, whether it succeeds or fails, and so does every session that begins or ends.
    A request of a generation that may not speak uses none, and neither do touches, pulses and identities.
K2  When a session ends, by its own wish, because its time is over or because its process has begun anew, its
    ephemeral nodes go with it, all at one zxid and in the order of their paths, once.
K3  A reply is no larger than ``reply_bytes_max``: an operation whose answer might not fit is not done.
K4  Times in the tree are those of the log's entries, in milliseconds.

Reads are answered from here without going through the log, and the stream says what was applied; both are
about this replica alone and no part of what is replicated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Self

import msgspec

from motet.core.keeper import reading
from motet.core.keeper.acl import Identity
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.ids import Generation
from motet.core.keeper.multi import write_multi
from motet.core.keeper.operations import (
    BATCH,
    AddIdentity,
    AnyOperation,
    Attached,
    EndSession,
    EndSessions,
    OpenSession,
    Outcome,
    Outcomes,
    Piece,
    Pulse,
    Reattach,
    Refused,
    Touch,
    Touched,
    WholeOperation,
    Write,
    answer_bytes,
    decode_batch,
    encode_reply,
    failed,
)
from motet.core.keeper.pages import (
    all_pages,
    changed_pages,
    counters_page,
    decode_pages,
    encode_counters,
)
from motet.core.keeper.pieces import add_piece, take_write
from motet.core.keeper.sessions import Session, Sessions
from motet.core.keeper.stream import Applied, Stream, Taken
from motet.core.keeper.tree import Tree
from motet.core.keeper.writes import Writing, remove, write_one
from motet.core.vsr.header import OPERATION_MIN
from motet.core.vsr.state_machine import Entry
from motet.format.zookeeper.messages import (
    AnyResult,
    ErrorCode,
    Failed,
    Multi,
    Nothing,
    ReadRequest,
)
from motet.format.zookeeper.sizes import empty_reply_bytes
from motet.ids import SessionId, Zxid

_encode = msgspec.msgpack.Encoder().encode
_nanoseconds_per_ms = 1_000_000
_ok = int(ErrorCode.OK)


class Counts(msgspec.Struct, frozen=True):
    """How much there is."""

    nodes: int
    ephemerals: int
    tree_bytes: int
    sessions: int


class Keeper:
    """The machine. ``config`` must be the same on all replicas, for ever."""

    def __init__(self, config: KeeperConfig | None = None) -> None:
        self.config = KeeperConfig() if config is None else config
        self.zxid = Zxid(0)
        self._tree = Tree(self.config.node_pages)
        self._sessions = Sessions(self.config)
        #: the counters as they were handed out last
        self._counters_taken = b""
        #: pages of a checkpoint that nobody has taken yet
        self._pages_to_take: dict[int, bytes | None] = {}
        self._stream = Stream(self.config.applied_max)

    # Entries

    def apply(self, entry: Entry) -> bytes:
        if entry.operation < OPERATION_MIN:
            return b""  # the protocol's own
        if entry.operation != BATCH:
            return encode_reply(Refused("no such operation"))
        operations = decode_batch(entry.body)
        if operations is None:
            return encode_reply(Refused("the body is not a batch"))
        room_bytes = self.config.reply_bytes_max - empty_reply_bytes(len(operations))
        if room_bytes < 0:
            return encode_reply(Refused("too many operations for one reply"))
        time_ms = entry.timestamp // _nanoseconds_per_ms
        reply = encode_reply(Outcomes(self._run_all(operations, time_ms, room_bytes)))
        assert len(reply) <= self.config.reply_bytes_max, "K3"
        return reply

    def _run_all(
        self, operations: list[AnyOperation], time_ms: int, room_bytes: int
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for operation in operations:
            if isinstance(operation, Piece):
                outcome, answer = self._piece(operation, time_ms, room_bytes)
                room_bytes -= answer
                outcomes.append(outcome)
                continue
            answer = answer_bytes(operation)
            if answer > room_bytes:  # K3
                outcomes.append(failed(self.zxid, ErrorCode.SYSTEM_ERROR))
                continue
            room_bytes -= answer
            outcomes.append(self._run(operation, time_ms))
        return outcomes

    def _piece(self, piece: Piece, time_ms: int, room_bytes: int) -> tuple[Outcome, int]:
        """Its outcome, and how much of the reply that may take."""
        error = self._sessions.refusal(piece.session, piece.generation)
        if error:
            return failed(self.zxid, error), 0
        session = self._sessions.by_id[piece.session]
        self._sessions.touch(session)
        self._sessions.changed(session)
        if not add_piece(self.config, session, piece):
            return failed(self.zxid, ErrorCode.MARSHALLING_ERROR), 0
        if not piece.is_last:
            return Outcome(self.zxid, _ok, Nothing()), 0
        write = take_write(session)
        if write is None:
            return failed(self.zxid, ErrorCode.MARSHALLING_ERROR), 0
        if answer_bytes(write) > room_bytes:  # K3
            return failed(self.zxid, ErrorCode.SYSTEM_ERROR), 0
        return self._write(write, session, time_ms), answer_bytes(write)

    def _run(self, operation: WholeOperation, time_ms: int) -> Outcome:
        if isinstance(operation, Write):
            return self._run_as_session(operation, time_ms)
        if isinstance(operation, EndSession | AddIdentity):
            return self._run_as_session(operation, time_ms)
        if isinstance(operation, OpenSession):
            return self._open(operation)
        if isinstance(operation, Reattach):
            return self._reattach(operation)
        if isinstance(operation, Touch):
            return self._touch(operation)
        if isinstance(operation, EndSessions):
            return self._end_all(time_ms)
        return self._pulse(operation, time_ms)

    def _run_as_session(self, operation: Write | EndSession | AddIdentity, time_ms: int) -> Outcome:
        error = self._sessions.refusal(operation.session, operation.generation)
        if error:
            return failed(self.zxid, error)
        session = self._sessions.by_id[operation.session]
        self._sessions.touch(session)
        if isinstance(operation, Write):
            return self._write(operation, session, time_ms)
        if isinstance(operation, EndSession):
            self._end(session.id, time_ms)
            return Outcome(self.zxid, _ok, Nothing())
        if not self._sessions.add_identity(session, Identity(operation.scheme, operation.id)):
            return failed(self.zxid, ErrorCode.AUTH_FAILED)
        return Outcome(self.zxid, _ok, Nothing())

    def _write(self, operation: Write, session: Session, time_ms: int) -> Outcome:
        request = operation.request
        write = self._begin(session.id, session.identities, time_ms)
        result: AnyResult
        if isinstance(request, Multi):
            result = write_multi(write, request)
        else:
            result = write_one(write, request)
        if write.events:
            self._stream.add(Applied(self.zxid, tuple(write.events)))
        return Outcome(self.zxid, result.error if type(result) is Failed else _ok, result)

    def _begin(self, session: SessionId, identities: tuple[Identity, ...], time_ms: int) -> Writing:
        """The next zxid (K1)."""
        self.zxid = Zxid(self.zxid + 1)
        return Writing(self.config, self._tree, self.zxid, time_ms, session, identities, [])

    # Sessions

    def _open(self, operation: OpenSession) -> Outcome:
        session = self._sessions.open(operation.timeout_ms, operation.password)
        if session is None:
            return failed(self.zxid, ErrorCode.SYSTEM_ERROR)
        self.zxid = Zxid(self.zxid + 1)  # K1
        return self._attached(session)

    def _reattach(self, operation: Reattach) -> Outcome:
        session = self._sessions.reattach(operation.session, operation.password)
        if session is None:
            gone = Attached(operation.session, Generation(0), 0)
            return Outcome(self.zxid, _ok, gone)
        self._stream.add(Applied(self.zxid, moved_sessions=(session.id,)))
        return self._attached(session)

    def _attached(self, session: Session) -> Outcome:
        attached = Attached(session.id, session.generation, session.timeout_ms)
        return Outcome(self.zxid, _ok, attached)

    def _touch(self, operation: Touch) -> Outcome:
        refused: list[tuple[SessionId, int]] = []
        for session, generation in operation.sessions:
            error = self._sessions.refusal(session, generation)
            if error:
                refused.append((session, error))
            else:
                self._sessions.touch(self._sessions.by_id[session])
        return Outcome(self.zxid, _ok, Touched(tuple(refused)))

    def _pulse(self, operation: Pulse, time_ms: int) -> Outcome:
        for session in self._sessions.pulse(operation.elapsed_ms, operation.view):
            self._end(session, time_ms)
        return Outcome(self.zxid, _ok, Nothing())

    def _end_all(self, time_ms: int) -> Outcome:
        for session in sorted(self._sessions.by_id):
            self._end(session, time_ms)
        return Outcome(self.zxid, _ok, Nothing())

    def _end(self, session: SessionId, time_ms: int) -> None:
        """K2."""
        write = self._begin(session, (), time_ms)
        for path in self._tree.owned(session):
            remove(write, path)
        self._sessions.end(session)
        assert not self._tree.owned(session), "K2"
        self._stream.add(Applied(self.zxid, tuple(write.events), ended_sessions=(session,)))

    # For the front ends of this replica

    def read(self, session: SessionId, request: ReadRequest) -> tuple[int, AnyResult]:
        """What is here, for this session. A session that this replica has not heard of yet has no
        identities; one that has ended is told so."""
        found = self._sessions.by_id.get(session)
        if found is None and session < self._sessions.clock.session_next:
            return int(ErrorCode.SESSION_EXPIRED), Failed(ErrorCode.SESSION_EXPIRED)
        result = reading.read(self._tree, found.identities if found else (), request)
        return (result.error if type(result) is Failed else _ok), result

    def take_applied(self) -> Taken:
        return self._stream.take()

    def refusal(self, session: SessionId, generation: Generation) -> int:
        """The error for a generation that may not speak for this session, 0 if it may."""
        return self._sessions.refusal(session, generation)

    def sessions(self) -> dict[SessionId, int]:
        """Each with its timeout in milliseconds, for people."""
        return {
            number: self._sessions.by_id[number].timeout_ms
            for number in sorted(self._sessions.by_id)
        }

    def ephemerals(self) -> dict[SessionId, tuple[str, ...]]:
        """Of every session, for people."""
        return {session: self._tree.owned(session) for session in sorted(self._sessions.by_id)}

    def counts(self) -> Counts:
        return Counts(
            len(self._tree.nodes),
            self._tree.owned_count(),
            self._tree.bytes_total,
            len(self._sessions.by_id),
        )

    # Pages

    def begin_pages(self) -> list[int]:
        self._pages_to_take = self.take_changed()
        return list(self._pages_to_take)

    def take_page(self, number: int) -> bytes | None:
        return self._pages_to_take.pop(number)

    def take_changed(self) -> dict[int, bytes | None]:
        """All pages that changed, at once."""
        changed = changed_pages(self.config, self._tree, self._sessions)
        counters = encode_counters(self.zxid, self._sessions.clock)
        if counters != self._counters_taken:
            changed[counters_page(self.config)] = self._counters_taken = counters
        return changed

    def restore(self, pages: Iterable[tuple[int, bytes]]) -> None:
        found = list(pages)
        self._pages_to_take = {}
        if not found:  # nothing was ever kept: a keeper at its beginning
            self.zxid, self._counters_taken = Zxid(0), b""
            self._tree, self._sessions = Tree(self.config.node_pages), Sessions(self.config)
        else:
            self._become(found)
        self._stream.cut()

    def _become(self, pages: list[tuple[int, bytes]]) -> None:
        state = decode_pages(self.config, pages)
        assert state.counters is not None
        self.zxid = state.counters.zxid
        self._tree = Tree.restored(self.config.node_pages, state.nodes, state.pages, state.children)
        self._sessions = Sessions(self.config, state.sessions, state.counters.clock)
        self._counters_taken = encode_counters(self.zxid, self._sessions.clock)

    # What a replica and a checker need

    def fingerprint(self) -> bytes:
        digest = hashlib.blake2b(encode_counters(self.zxid, self._sessions.clock), digest_size=16)
        for page in all_pages(self.config, self._tree, self._sessions):
            digest.update(_encode(page))
        return digest.digest()

    def clone(self) -> Self:
        twin = type(self)(self.config)
        twin.zxid = self.zxid
        twin._tree, twin._sessions = self._tree.clone(), self._sessions.clone()
        twin._counters_taken, twin._stream = self._counters_taken, self._stream.clone()
        twin._pages_to_take = dict(self._pages_to_take)
        return twin
