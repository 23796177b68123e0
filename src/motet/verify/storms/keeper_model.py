"""The keeper in the plainest words, with all its past: what the log says, done again without any cleverness.

Each node is a list of what it was, by zxid; nothing is ever forgotten. So one can ask what a read would have
been answered at any zxid, and what happened to a node after one. Sessions are a dict, and a write works on
a draft that is kept or thrown away.

It knows what clients of a simulation ask for and no more: no permissions, no paths that are none, no nodes
that are too large.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.ids import Generation
from motet.core.keeper.operations import (
    AnyOperation,
    Attached,
    EndSession,
    EndSessions,
    OpenSession,
    Outcome,
    Piece,
    Pulse,
    Reattach,
    Touch,
    Touched,
    Write,
    decode_batch,
    failed,
)
from motet.format.zookeeper.messages import (
    ANY_VERSION,
    AnyResult,
    Check,
    Create,
    Create2,
    Created,
    Created2,
    CreateFlags,
    Delete,
    ErrorCode,
    EventType,
    Failed,
    Multi,
    MultiResult,
    Nothing,
    SetAcl,
    SetData,
    Stat,
    StatResult,
    WriteRequest,
)
from motet.ids import SessionId, Zxid

ROOT = "/"
DATA, CHILD = "data", "child"
HEARD_BY = {
    EventType.CREATED: (DATA,),
    EventType.CHANGED: (DATA,),
    EventType.DELETED: (DATA, CHILD),
    EventType.CHILD: (CHILD,),
}
"""Event -> the kinds of watches that hear of it."""

Happening = tuple[int, int]
"""zxid, and the type of the event."""

One = Create | Create2 | Delete | SetData | SetAcl | Check


class Version(msgspec.Struct, frozen=True):
    """A node, as it was from one zxid on."""

    data: bytes | None
    owner: int
    czxid: int
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    number: int = 0
    children_come: int = 0
    children_gone: int = 0
    children: tuple[str, ...] = ()

    @property
    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            version=self.number,
            cversion=self.children_come + self.children_gone,
            aversion=0,
            ephemeral_owner=self.owner,
            data_length=len(self.data or b""),
            num_children=len(self.children),
            pzxid=self.pzxid,
        )


class Visit(msgspec.Struct):
    """A session that lives."""

    timeout_ms: int
    password: bytes
    touched_ms: int
    generation: int = 1
    pieces: list[bytes] = []


class Done(msgspec.Struct, frozen=True):
    """A write, as it was done at one zxid."""

    session: int
    generation: int
    request: WriteRequest
    error: int
    result: AnyResult


class Draft:
    """What one write is about to do."""

    def __init__(self, model: Model, time_ms: int, session: int) -> None:
        self.model = model
        self.time_ms = time_ms
        self.session = session
        self.changes: dict[str, Version | None] = {}
        self.events: list[tuple[EventType, str]] = []

    def get(self, path: str) -> Version | None:
        return self.changes[path] if path in self.changes else self.model.node(path)

    def do(self, request: One) -> Nothing | Created | Created2 | StatResult | Failed:
        if isinstance(request, Create | Create2):
            return self._create(request)
        node = self.get(request.path)
        if node is None:
            return Failed(ErrorCode.NO_NODE)
        assert not isinstance(request, SetAcl)
        if request.version not in (ANY_VERSION, node.number):
            return Failed(ErrorCode.BAD_VERSION)
        if isinstance(request, Delete):
            return self._delete(request.path, node)
        return self._set(request, node) if isinstance(request, SetData) else Nothing()

    def _create(self, request: Create | Create2) -> Created | Created2 | Failed:
        parent_path, name = _split(request.path)
        parent = self.get(parent_path)
        if parent is None:
            return Failed(ErrorCode.NO_NODE)
        if request.flags & CreateFlags.SEQUENTIAL:
            name += str(parent.children_come).zfill(10)
        path = parent_path.rstrip("/") + "/" + name
        if self.get(path) is not None:
            return Failed(ErrorCode.NODE_EXISTS)
        if parent.owner:
            return Failed(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
        zxid, now = self.model.zxid, self.time_ms
        owner = self.session if request.flags & CreateFlags.EPHEMERAL else 0
        node = Version(request.data, owner, zxid, zxid, zxid, now, now)
        self.changes[path] = node
        self.changes[parent_path] = msgspec.structs.replace(
            parent,
            pzxid=zxid,
            children_come=parent.children_come + 1,
            children=tuple(sorted([*parent.children, name])),
        )
        self.events += [(EventType.CREATED, path), (EventType.CHILD, parent_path)]
        return Created(path) if isinstance(request, Create) else Created2(path, node.stat)

    def _delete(self, path: str, node: Version) -> Nothing | Failed:
        if node.children:
            return Failed(ErrorCode.NOT_EMPTY)
        self.remove(path)
        return Nothing()

    def remove(self, path: str) -> None:
        parent_path, name = _split(path)
        parent = self.get(parent_path)
        assert parent is not None
        self.changes[path] = None
        self.changes[parent_path] = msgspec.structs.replace(
            parent,
            pzxid=self.model.zxid,
            children_gone=parent.children_gone + 1,
            children=tuple(each for each in parent.children if each != name),
        )
        self.events += [(EventType.DELETED, path), (EventType.CHILD, parent_path)]

    def _set(self, request: SetData, node: Version) -> StatResult:
        node = msgspec.structs.replace(
            node,
            data=request.data,
            number=node.number + 1,
            mzxid=self.model.zxid,
            mtime_ms=self.time_ms,
        )
        self.changes[request.path] = node
        self.events.append((EventType.CHANGED, request.path))
        return StatResult(node.stat)


class Model:
    """The tree and the sessions after all that was applied so far, and before."""

    def __init__(self, config: KeeperConfig) -> None:
        self._config = config
        self.zxid = 0
        self.now_ms = self.granted_ms = 0
        self.view = -1
        #: path -> what it was, as (from zxid on, version), the oldest first
        self._past: dict[str, list[tuple[int, Version | None]]] = {
            ROOT: [(0, Version(b"", 0, 0, 0, 0, 0, 0))]
        }
        #: (kind of watch, path) -> what it would have heard, in order
        self._happened: dict[tuple[str, str], list[Happening]] = {}
        self.sessions: dict[int, Visit] = {}
        self.sessions_begun = 0
        #: session -> the zxid at which it ended
        self.ended: dict[int, int] = {}
        self.done: dict[int, Done] = {}
        #: sessions that the last operation was a sign of life of
        self.touched: list[int] = []

    # Questions

    def node(self, path: str, zxid: int | None = None) -> Version | None:
        """What it was after this zxid; what it is now if none is given."""
        past = self._past.get(path)
        if past is None:
            return None
        place = len(past) if zxid is None else bisect_right(past, zxid, key=lambda each: each[0])
        return past[place - 1][1] if place else None

    def paths(self) -> list[str]:
        return [path for path, past in self._past.items() if past[-1][1] is not None]

    def first_after(self, kind: str, path: str, zxid: int) -> Happening | None:
        """What a watch of this kind that was set at this zxid hears."""
        happened = self._happened.get((kind, path), [])
        place = bisect_right(happened, zxid, key=lambda each: each[0])
        return happened[place] if place < len(happened) else None

    def refusal(self, session: int, generation: int) -> int:
        if session not in self.sessions:
            return ErrorCode.SESSION_EXPIRED
        is_latest = self.sessions[session].generation == generation
        return 0 if is_latest else ErrorCode.SESSION_MOVED

    # The log

    def run(self, operation: AnyOperation, time_ms: int) -> Outcome:
        self.touched = []
        if isinstance(operation, Piece):
            return self._piece(operation, time_ms)
        if isinstance(operation, OpenSession):
            return self._open(operation)
        if isinstance(operation, Reattach):
            return self._reattach(operation)
        if isinstance(operation, Touch):
            return self._touch(operation)
        if isinstance(operation, Pulse):
            return self._pulse(operation, time_ms)
        assert not isinstance(operation, EndSessions), "clients live in processes of their own here"
        error = self._speak(operation.session, operation.generation)
        if error:
            return failed(Zxid(self.zxid), error)
        if isinstance(operation, EndSession):
            self._end(operation.session, time_ms)
            return self._outcome(Nothing())
        assert isinstance(operation, Write), "nobody proves who he is here"
        return self._write(operation, time_ms)

    def _outcome(self, result: AnyResult | Attached | Touched) -> Outcome:
        return Outcome(Zxid(self.zxid), result.error if isinstance(result, Failed) else 0, result)

    def _speak(self, session: int, generation: int) -> int:
        error = self.refusal(session, generation)
        if not error:
            self.sessions[session].touched_ms = self.now_ms
            self.touched.append(session)
        return error

    def _piece(self, piece: Piece, time_ms: int) -> Outcome:
        error = self._speak(piece.session, piece.generation)
        if error:
            return failed(Zxid(self.zxid), error)
        visit = self.sessions[piece.session]
        visit.pieces = [*visit.pieces, piece.data] if piece.number else [piece.data]
        if piece.number != len(visit.pieces) - 1:
            visit.pieces = []
            return failed(Zxid(self.zxid), ErrorCode.MARSHALLING_ERROR)
        if not piece.is_last:
            return self._outcome(Nothing())
        batch = decode_batch(b"".join(visit.pieces))
        visit.pieces = []
        assert batch is not None
        (write,) = batch
        assert isinstance(write, Write)
        return self._write(write, time_ms)

    def _write(self, write: Write, time_ms: int) -> Outcome:
        self.zxid += 1
        draft, request = Draft(self, time_ms, write.session), write.request
        result: AnyResult
        if isinstance(request, Multi):
            result = self._multi(draft, request)
        else:
            result = draft.do(request)
            self._keep(draft)
        outcome = self._outcome(result)
        self.done[self.zxid] = Done(write.session, write.generation, request, outcome.error, result)
        return outcome

    def _multi(self, draft: Draft, request: Multi) -> MultiResult:
        results: list[Nothing | Created | Created2 | StatResult | Failed] = []
        for each in request.operations:
            results.append(draft.do(each))
            if isinstance(results[-1], Failed):
                before, after = len(results) - 1, len(request.operations) - len(results)
                inconsistent = Failed(ErrorCode.RUNTIME_INCONSISTENCY)
                return MultiResult((*[Failed(0)] * before, results[-1], *[inconsistent] * after))
        self._keep(draft)
        return MultiResult(tuple(results))

    def _keep(self, draft: Draft) -> None:
        for path, version in draft.changes.items():
            self._past.setdefault(path, []).append((self.zxid, version))
        for event, path in draft.events:
            for kind in HEARD_BY[event]:
                self._happened.setdefault((kind, path), []).append((self.zxid, event))

    # Sessions

    def _open(self, operation: OpenSession) -> Outcome:
        self.zxid += 1
        self.sessions_begun += 1
        session = self.sessions_begun
        self.sessions[session] = Visit(operation.timeout_ms, operation.password, self.now_ms)
        self.touched.append(session)
        return self._attached(session)

    def _reattach(self, operation: Reattach) -> Outcome:
        visit = self.sessions.get(operation.session)
        if visit is None or visit.password != operation.password:
            return self._outcome(Attached(operation.session, Generation(0), 0))
        visit.generation += 1
        visit.touched_ms, visit.pieces = self.now_ms, []
        self.touched.append(operation.session)
        return self._attached(operation.session)

    def _attached(self, session: int) -> Outcome:
        visit = self.sessions[session]
        generation = Generation(visit.generation)
        return self._outcome(Attached(SessionId(session), generation, visit.timeout_ms))

    def _touch(self, operation: Touch) -> Outcome:
        errors = [(session, self._speak(session, number)) for session, number in operation.sessions]
        return self._outcome(Touched(tuple(each for each in errors if each[1])))

    def _pulse(self, operation: Pulse, time_ms: int) -> Outcome:
        if operation.view > self.view:
            self.view, self.granted_ms = operation.view, self.now_ms
        elif operation.view == self.view:
            self.now_ms += min(max(operation.elapsed_ms, 0), self._config.pulse_ms_max)
            for session in [each for each in self.sessions if self._is_over(each)]:
                self._end(session, time_ms)
        return self._outcome(Nothing())

    def _is_over(self, session: int) -> bool:
        visit = self.sessions[session]
        silent_ms = self.now_ms - max(visit.touched_ms, self.granted_ms)
        return silent_ms > visit.timeout_ms + self._config.grace_ms

    def _end(self, session: int, time_ms: int) -> None:
        self.zxid += 1
        draft = Draft(self, time_ms, session)
        for path in sorted(self.paths()):
            node = self.node(path)
            if node is not None and node.owner == session:
                draft.remove(path)
        self._keep(draft)
        del self.sessions[session]
        self.ended[session] = self.zxid


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name
