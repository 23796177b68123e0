"""The keeper as cores see it (:mod:`motet.core.metadata.messages`), without a cluster: one tree, no delay.

It is the keeper's own state machine, so paths, versions, sessions and zxids are what they are in a cluster.
Whoever holds it decides when a request takes effect, when sessions begin and end, and what goes wrong.
"""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core.fingerprint import clone_plain
from motet.core.keeper.acl import OPEN_ACL
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.ids import Generation
from motet.core.keeper.machine import Keeper
from motet.core.keeper.operations import (
    BATCH,
    AnyOperation,
    Attached,
    EndSession,
    OpenSession,
    Outcome,
    Outcomes,
    decode_reply,
    encode_batch,
)
from motet.core.keeper.operations import Write as WriteInSession
from motet.core.metadata import zookeeper
from motet.core.metadata.messages import (
    Changed,
    Conflict,
    Create,
    Deposed,
    Elected,
    Failed,
    MetadataMessage,
    MetadataRequest,
    Read,
    ReadDone,
    SessionOver,
    Stand,
    Standing,
    Watch,
    Watching,
    WatchOf,
    WriteOperation,
    Written,
)
from motet.core.metadata.messages import Write as WriteRequest
from motet.core.vsr.state_machine import Entry
from motet.format.zookeeper.messages import (
    Children,
    Data,
    ErrorCode,
    EventType,
    GetChildren,
    GetData,
    MultiResult,
)
from motet.format.zookeeper.sizes import WriteLimits
from motet.ids import ClientId, Op, SessionId
from motet.limits import keeper_reply_bytes_default

LIMITS = WriteLimits()
SMALL = KeeperConfig(node_pages=8, session_pages=2, reply_bytes_max=keeper_reply_bytes_default)
FIRST_GENERATION = Generation(1)
ONLOOKER = SessionId(1 << 62)
"""A session that the keeper has not heard of yet: it may read what everybody may."""

_timeout_ms = 10_000
_ns_per_ms = 1_000_000


class Standings(msgspec.Struct):
    """What sessions watch and stand for, besides the tree."""

    #: in the order in which they were set
    watches: dict[tuple[SessionId, str, WatchOf], None] = {}
    #: entry -> its session and the path it stands at
    candidates: dict[str, tuple[SessionId, str]] = {}
    #: entries that have been told
    elected: dict[str, None] = {}


class MetadataTree:
    """The tree, its sessions, and who is to be told of what."""

    def __init__(self) -> None:
        self._keeper = Keeper(SMALL)
        self._standings = Standings()
        self._ops = 0
        self._begun: dict[SessionId, None] = {}
        self._news: list[tuple[SessionId, MetadataMessage]] = []

    # Sessions

    def begin_session(self, now_ms: int = 0) -> SessionId:
        outcome = self._apply(OpenSession(_timeout_ms, b""), now_ms)
        assert isinstance(outcome.result, Attached), "there is room for a session"
        self._begun[outcome.result.session] = None
        return outcome.result.session

    def end_session(self, session: SessionId, now_ms: int = 0) -> None:
        """Its ephemeral nodes, watches and candidacies go; a second time is fine."""
        kept = self._standings
        kept.watches = {key: None for key in kept.watches if key[0] != session}
        for entry in [each for each, (of, _) in kept.candidates.items() if of == session]:
            self._withdraw(entry)
        self._apply(EndSession(session, FIRST_GENERATION), now_ms)

    @property
    def sessions(self) -> tuple[SessionId, ...]:
        """All that were begun here and have not ended."""
        return tuple(each for each in self._begun if self.is_alive(each))

    def is_alive(self, session: SessionId) -> bool:
        return not self._keeper.refusal(session, FIRST_GENERATION)

    # Requests

    def answer(self, request: MetadataRequest, now_ms: int = 0) -> MetadataMessage:
        """Carry it out at this moment."""
        if not self.is_alive(request.session):
            return SessionOver(request.request)
        if isinstance(request, Read):
            return self._read(request)
        if isinstance(request, WriteRequest):
            return self._write(request, now_ms)
        if isinstance(request, Watch):
            self._standings.watches[request.session, request.path, request.of] = None
            return Watching(request.request)
        assert isinstance(request, Stand), "every request has its branch"
        return self._stand(request, now_ms)

    def take_news(self) -> list[tuple[SessionId, MetadataMessage]]:
        """Whom to tell what, in the order in which it happened."""
        news, self._news = self._news, []
        return news

    def get(self, path: str) -> bytes | None:
        """The data of a node, for those who look on."""
        _, result = self._keeper.read(ONLOOKER, GetData(path, watch=False))
        return (result.data or b"") if isinstance(result, Data) else None

    def names(self, path: str) -> tuple[str, ...]:
        """The children of a node, for those who look on."""
        _, result = self._keeper.read(ONLOOKER, GetChildren(path, watch=False))
        return tuple(sorted(result.children)) if isinstance(result, Children) else ()

    def _read(self, request: Read) -> MetadataMessage:
        asked = zookeeper.multi_read(request.operations)
        error, result = self._keeper.read(request.session, asked)
        if not isinstance(result, MultiResult):
            return _failed(request, error)
        unreadable = zookeeper.unreadable(result.results)
        if unreadable is not None:
            return _failed(request, unreadable)
        found = zookeeper.read_results(request.operations, result.results)
        return ReadDone(request.request, self._keeper.zxid, found)

    def _write(self, request: WriteRequest, now_ms: int) -> MetadataMessage:
        if zookeeper.why_too_large(request.operations, LIMITS) is not None:
            return _failed(request, ErrorCode.MARSHALLING_ERROR)
        outcome = self._multi(request.session, request.operations, now_ms)
        if not isinstance(outcome.result, MultiResult):
            return _failed(request, outcome.error)
        results = outcome.result.results
        refused = zookeeper.refused(results)
        if refused is None:
            return Written(request.request, outcome.zxid, zookeeper.write_results(results))
        index, error = refused
        if error not in zookeeper.REFUSALS:
            return _failed(request, error)
        return Conflict(request.request, index, zookeeper.REFUSALS[error])

    def _stand(self, request: Stand, now_ms: int) -> MetadataMessage:
        create = Create(
            f"{request.path}/{request.name}-",
            request.name.encode(),
            ephemeral=True,
            sequential=True,
        )
        outcome = self._multi(request.session, (create,), now_ms)
        assert isinstance(outcome.result, MultiResult)
        if zookeeper.refused(outcome.result.results) is not None:
            return _failed(request, outcome.error)
        entry = zookeeper.write_results(outcome.result.results)[0]
        assert isinstance(entry, str)
        self._standings.candidates[entry] = request.session, request.path
        self._look_at_candidates(request.path)
        return Standing(request.request, entry)

    def _multi(
        self, session: SessionId, operations: tuple[WriteOperation, ...], now_ms: int
    ) -> Outcome:
        multi = zookeeper.multi(operations, OPEN_ACL)
        return self._apply(WriteInSession(session, FIRST_GENERATION, multi), now_ms)

    def _apply(self, operation: AnyOperation, now_ms: int) -> Outcome:
        self._ops += 1
        entry = Entry(
            Op(self._ops), now_ms * _ns_per_ms, ClientId(1), BATCH, encode_batch([operation])
        )
        reply = decode_reply(self._keeper.apply(entry))
        assert isinstance(reply, Outcomes), "what was encoded here is a batch"
        self._see_events()
        return reply.outcomes[0]

    # Who is told

    def _see_events(self) -> None:
        told: dict[tuple[SessionId, str], None] = {}
        stood: dict[str, None] = {}
        stood_at = {path for _, path in self._standings.candidates.values()}
        for applied in self._keeper.take_applied().applied:
            for event in applied.events:
                for session, path, of in self._standings.watches:
                    if _concerns(path, of, event.type, event.path):
                        told[session, path] = None
                if event.type == EventType.DELETED and event.path in self._standings.candidates:
                    stood[self._standings.candidates[event.path][1]] = None
                    self._lose_entry(event.path)
                elif event.type == EventType.CHILD and event.path in stood_at:
                    stood[event.path] = None
        self._news += [
            (session, Changed(session, path, self._keeper.zxid)) for session, path in told
        ]
        for path in stood:
            self._look_at_candidates(path)

    def _lose_entry(self, entry: str) -> None:
        """It was deleted while its session lasts."""
        session, path = self._standings.candidates[entry]
        self._withdraw(entry)
        self._news.append((session, Deposed(session, path)))

    def _withdraw(self, entry: str) -> None:
        del self._standings.candidates[entry]
        self._standings.elected.pop(entry, None)

    def _look_at_candidates(self, path: str) -> None:
        names = sorted(self.names(path), key=sequence_of)
        if not names or f"{path}/{names[0]}" in self._standings.elected:
            return
        entry = f"{path}/{names[0]}"
        found = self._standings.candidates.get(entry)
        if found is not None:
            self._standings.elected[entry] = None
            self._news.append((found[0], Elected(found[0], path, entry)))

    # What a workbench needs

    def clone(self) -> Self:
        twin = type(self)()
        twin._keeper, twin._ops = self._keeper.clone(), self._ops
        twin._begun = dict(self._begun)
        twin._standings, twin._news = clone_plain(self._standings), list(self._news)
        return twin

    def fingerprint(self) -> bytes:
        return self._keeper.fingerprint()


def sequence_of(name: str) -> int:
    """The number that the keeper gave a sequential node."""
    return int(name.rpartition("-")[2])


def _concerns(path: str, of: WatchOf, event: int, at: str) -> bool:
    """Whether a watch hears of an event."""
    if at == path:
        return event != EventType.CHILD or of is not WatchOf.NODE
    is_child = at.rpartition("/")[0] == path
    return is_child and of is WatchOf.BELOW and event != EventType.CHILD


def _failed(request: MetadataRequest, error: int) -> Failed:
    code = "KEEPER_TOO_LARGE" if error == ErrorCode.MARSHALLING_ERROR else "KEEPER"
    return Failed(request.request, code, f"the keeper refused with error {error}", "ask for less")
